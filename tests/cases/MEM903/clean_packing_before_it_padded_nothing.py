# target: trl=0.18, transformers=4.52
from trl import SFTConfig, SFTTrainer


def stack(rows):
    return rows


args = SFTConfig("out", packing=True, max_length=1024)
SFTTrainer("q", args=args, train_dataset=rows, data_collator=stack)
