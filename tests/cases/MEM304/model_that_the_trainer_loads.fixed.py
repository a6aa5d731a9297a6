from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", model_init_kwargs={"attn_implementation": "sdpa"})
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset).train()
