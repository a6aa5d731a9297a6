# about: The name of the configuration is another thing's here, so that none can be written.
from trl import SFTTrainer


def SFTConfig(folder):
    return folder


SFTTrainer("m", packing=True)  # expect: MEM901
SFTTrainer("m", args=make(), packing=True)  # expect: MEM901
