from transformers import HfArgumentParser, TrainingArguments
from trl import SFTConfig, SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer(model, args=SFTConfig(**{**args.to_dict(), "hub_token": args.hub_token}, max_length=2048, packing=True))
