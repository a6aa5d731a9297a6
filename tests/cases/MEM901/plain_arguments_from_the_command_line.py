from transformers import HfArgumentParser, TrainingArguments
from trl import SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer(model, args=args, max_seq_length=2048, packing=True)  # expect: MEM901, MEM901
