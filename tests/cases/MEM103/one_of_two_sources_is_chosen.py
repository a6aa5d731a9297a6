# about: both arms of a condition load rows of several lengths
import sys
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

small = load_dataset("imdb", split="train[:100]") if "--small" in sys.argv else None
rows = small or load_dataset("imdb", split="train")
rows = load_dataset("imdb", split="test") if "--test" in sys.argv else small
args = SFTConfig("out", per_device_train_batch_size=4)  # expect: MEM103
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
