from transformers import HfArgumentParser, TrainingArguments
from trl import SFTConfig, SFTTrainer
from memlint_runtime import extend_arguments


class Run:
    def __init__(self, args):
        self.args = args

    def start(self, data, limit):
        return SFTTrainer("m", args=extend_arguments(self.args, SFTConfig, max_length=limit), train_dataset=data)

    def again(self, data):
        options = {"max_seq_length": 512, "packing": True}
        return SFTTrainer("m", args=self.args, train_dataset=data, **options)

    def own(self, data):
        return MyTrainer("m", args=self.args, train_dataset=data, packing=True)


class MyTrainer(SFTTrainer):
    def log(self, logs, start_time=None):
        print(logs)


(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
SFTTrainer("m", args=SFTConfig(**{**args.to_dict(), "hub_token": args.hub_token}))
SFTTrainer("m", args=extend_arguments(first(args), SFTConfig, max_length=512))
