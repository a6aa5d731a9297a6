from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", model_init_kwargs={"attn_implementation": "eager"})  # expect: MEM304
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset).train()
