from trl import SFTConfig, SFTTrainer

width = 256
args = SFTConfig("out")
limit = 512
SFTTrainer(model, args=args, train_dataset=rows, max_seq_length=limit)  # expect: MEM901
other = SFTConfig("other")
SFTTrainer(model, args=other, train_dataset=rows, max_seq_length=width)  # expect: MEM901
