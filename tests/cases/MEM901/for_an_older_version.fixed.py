from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out", max_seq_length=2048))
