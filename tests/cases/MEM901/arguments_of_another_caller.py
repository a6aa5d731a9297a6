# about: Arguments that come from outside; what the trainer is told comes from a dictionary.
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTTrainer


class Run:
    def __init__(self, args):
        self.args = args

    def start(self, data, limit):
        return SFTTrainer("m", args=self.args, train_dataset=data, max_seq_length=limit)  # expect: MEM901

    def again(self, data):
        options = {"max_seq_length": 512, "packing": True}  # expect: MEM901, MEM901
        return SFTTrainer("m", args=self.args, train_dataset=data, **options)

    def own(self, data):
        return MyTrainer("m", args=self.args, train_dataset=data, packing=True)  # expect: MEM901


class MyTrainer(SFTTrainer):
    def log(self, logs):  # expect: MEM901
        print(logs)


(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
SFTTrainer("m", args=args, max_seq_length=None)  # expect: MEM901
SFTTrainer("m", args=first(args), max_seq_length=512)  # expect: MEM901
