# about: An option that only the function of the trainer knows keeps the other one beside it.
from trl import SFTConfig, SFTTrainer


def train(args, rounds):
    SFTTrainer(
        "a",
        args=args,
        dataset_text_field="text",  # expect: MEM901
        max_seq_length=rounds * 2,  # expect: MEM901
    ).train()


config = SFTConfig("out", bf16=True)
train(config, read())
