from trl import SFTConfig, SFTTrainer


def settings(steps):
    return SFTConfig("out", bf16=True, max_steps=steps)


for steps in (1, 2):
    trainer = SFTTrainer(
        "a",
        args=settings(steps),
        dataset_text_field="text",  # expect: MEM901
        max_seq_length=steps * 8,  # expect: MEM901
    )
    trainer.train()
