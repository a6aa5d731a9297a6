from trl import SFTConfig, SFTTrainer
from memlint_runtime import extend_arguments


def settings(steps):
    return SFTConfig("out", bf16=True, max_steps=steps)


for steps in (1, 2):
    trainer = SFTTrainer(
        "a",
        args=extend_arguments(
            settings(steps),
            SFTConfig,
            dataset_text_field="text",
            max_length=steps * 8,
        ),
    )
    trainer.train()
