import argparse
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--reentrant", type=bool, default=True)
flags = parser.parse_args()
args = SFTConfig("out")
args.gradient_checkpointing_kwargs = {"use_reentrant": False}
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
kwargs = {"use_reentrant": flags.reentrant}
args = DPOConfig("out", gradient_checkpointing_kwargs=kwargs)
DPOTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
