from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, max_length=64, per_device_train_batch_size=4)  # expect: MEM106
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
