from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("q", args=SFTConfig("out"), train_dataset=dataset)
args = SFTConfig("out", packing=True, packing_strategy="wrapped")
trainer = SFTTrainer("q", args=args, train_dataset=dataset)
