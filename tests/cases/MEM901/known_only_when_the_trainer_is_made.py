from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
limit = longest(dataset)
trainer = SFTTrainer(model, args=args, train_dataset=dataset, max_seq_length=limit)  # expect: MEM901
