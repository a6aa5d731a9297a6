from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, torch_empty_cache_steps=None)
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
