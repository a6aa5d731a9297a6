# about: Fields of the script's own class, with names that its base once had.
import trl
from transformers import HfArgumentParser


class Config(trl.DPOConfig):
    max_prompt_length: int = 512


class More(Config):
    beta: float = 0.2


(args,) = HfArgumentParser((Config,)).parse_args_into_dataclasses()
more = More(output_dir="out", max_prompt_length=128)
