from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    "out",
    dataset_text_field="text",
    max_length=2048,
    packing=True,
)
trainer = SFTTrainer(
    model,
    args=args,
)
