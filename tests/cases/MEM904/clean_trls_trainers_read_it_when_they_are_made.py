# about: TRL's trainers read it when they are made.
from trl import SFTConfig

args = SFTConfig("out")
args.gradient_checkpointing = True
