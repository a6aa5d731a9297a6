# target: trl=0.14,transformers=4.48
from trl import DPOConfig, DPOTrainer

args = DPOConfig("out", per_device_train_batch_size=2)
trainer = DPOTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)  # expect: MEM104
