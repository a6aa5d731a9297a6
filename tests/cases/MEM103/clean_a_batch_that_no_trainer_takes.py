# about: the size of a batch is a mark that something replaces, and no size
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=4, max_length=1024)
args.per_device_train_batch_size = -1
rows = load_dataset("trl-lib/Capybara", split="train")
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
