from trl import SFTConfig, SFTTrainer

plain = SFTConfig("plain", loss_type="nll")
SFTTrainer("Qwen/Qwen3-0.6B", args=plain, train_dataset=dataset).train()
weighted = SFTConfig("weighted", use_liger_kernel=True)
weighted.loss_type = "dft"
SFTTrainer("Qwen/Qwen3-0.6B", args=weighted, train_dataset=dataset).train()
