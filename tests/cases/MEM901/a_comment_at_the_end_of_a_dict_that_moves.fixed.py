from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    train_dataset=rows,
    args=SFTConfig("out", dataset_kwargs={
        "add_special_tokens": False,  # the template has them 
        "skip_prepare_dataset": False,  # plain texts 
    }),
)
