from trl import SFTConfig, SFTTrainer

options = dict(
    per_device_train_batch_size=1,
    packing=False,  # expect: MEM103 hint
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=SFTConfig("out", **options),
    train_dataset=dataset,
)
