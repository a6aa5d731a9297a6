from trl import SFTTrainer

trainer = SFTTrainer(model, train_dataset=dataset, packing=True)  # expect: MEM901
