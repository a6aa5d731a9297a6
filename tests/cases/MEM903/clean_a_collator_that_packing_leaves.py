# about: rows cut from one long text are padded by no one; of the others the collator is none.
from trl import SFTConfig, SFTTrainer


def stack(rows):
    return rows


wrapped = SFTConfig("out", packing=True, packing_strategy="wrapped", max_length=1024)
SFTTrainer("q", args=wrapped, train_dataset=rows, data_collator=stack)
args = SFTConfig("out", packing=True, max_length=1024)
SFTTrainer("q", args=args, train_dataset=rows, data_collator=None)
SFTTrainer("q", args=args, train_dataset=rows, data_collator=stack if lists else None)
SFTTrainer("q", args=SFTConfig("out"), train_dataset=rows, data_collator=stack)
