from trl import SFTConfig, SFTTrainer
from memlint_runtime import extend_arguments


def train(args, rounds):
    SFTTrainer(
        "a",
        args=extend_arguments(
            args,
            SFTConfig,
            dataset_text_field="text",
            max_length=rounds * 2,
        ),
    ).train()


config = SFTConfig("out", bf16=True)
train(config, read())
