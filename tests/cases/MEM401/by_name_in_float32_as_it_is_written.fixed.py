from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", model_init_kwargs=dict(dtype="bfloat16"))
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=rows).train()
