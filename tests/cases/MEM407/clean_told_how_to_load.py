from peft import LoraConfig
from transformers import BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

loading = {"quantization_config": BitsAndBytesConfig(load_in_4bit=True)}
args = SFTConfig("out", packing=True, model_init_kwargs=loading)
SFTTrainer("Qwen/Qwen3-8B", args=args, peft_config=LoraConfig(), train_dataset=data).train()
