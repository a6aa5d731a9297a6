# about: Whether an adapter is trained is decided outside.
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config

model_args, = TrlParser((ModelConfig,)).parse_args_and_config()
args = SFTConfig("out", packing=True)
lora = get_peft_config(model_args)
SFTTrainer("Qwen/Qwen3-8B", args=args, peft_config=lora, train_dataset=dataset).train()
