# about: A configuration that goes to a trainer out of sight, and where there is no line for it.
from trl import GRPOConfig

from mine import OwnTrainer


def arguments():
    return OwnTrainer("m", args=GRPOConfig("o", max_prompt_length=256))  # expect: MEM901


options = {"max_prompt_length": 512}  # expect: MEM901
given = GRPOConfig("p", **options)
OwnTrainer("m", args=given)
