from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    deepspeed="zero3.json", gradient_checkpointing_kwargs={"use_reentrant": True}
)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
