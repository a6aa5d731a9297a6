from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
limit = longest(dataset)
args.max_length = limit
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
