from trl import SFTConfig, SFTTrainer


def stack(rows):
    return rows


class Stacks:
    def __call__(self, rows):
        return rows


args = SFTConfig("out", packing=True, max_length=1024)
SFTTrainer("q", args=args, train_dataset=rows, data_collator=stack)  # expect: MEM903
SFTTrainer("q", args=args, train_dataset=rows, data_collator=Stacks())  # expect: MEM903
SFTTrainer("q", args=args, train_dataset=rows, data_collator=lambda rows: rows)  # expect: MEM903
old_name = SFTConfig("out", packing=True, packing_strategy="bfd-requeue", max_length=1024)
SFTTrainer("q", args=old_name, train_dataset=rows, data_collator=stack)  # expect: MEM903
