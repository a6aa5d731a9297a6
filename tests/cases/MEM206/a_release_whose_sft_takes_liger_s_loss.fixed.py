from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", activation_offloading=True, use_liger_kernel=False)
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
