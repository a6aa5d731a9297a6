from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", loss_type="chunked_nll"), train_dataset=dataset).train()
chunked = SFTConfig("chunked", loss_type="chunked_nll")
SFTTrainer("Qwen/Qwen3-0.6B", args=chunked, train_dataset=dataset).train()
