from trl import SFTConfig, SFTTrainer

args = SFTConfig(packing=True, model_init_kwargs={"dtype": "bfloat16"})
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
