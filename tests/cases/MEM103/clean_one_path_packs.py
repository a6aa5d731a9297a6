# about: One path packs.
import sys
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
if "--pack" in sys.argv:
    args.packing = True
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
