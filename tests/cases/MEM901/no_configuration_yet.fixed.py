from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, train_dataset=dataset, args=SFTConfig(packing=True))
