from trl import SFTConfig, SFTTrainer

width = 256
args = SFTConfig("out")
limit = 512
args.max_length = limit
SFTTrainer(model, args=args, train_dataset=rows)
other = SFTConfig("other", max_length=width)
SFTTrainer(model, args=other, train_dataset=rows)
