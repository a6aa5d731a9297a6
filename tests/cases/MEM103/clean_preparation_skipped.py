# about: The trainer does not prepare the data, so it cannot pack them.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", dataset_kwargs={"skip_prepare_dataset": True})
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
