# about: Accumulated; adapters; small; an optimizer that does so by itself.
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", gradient_accumulation_steps=8)
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
args = SFTConfig("out", gradient_accumulation_steps=1)
lora = LoraConfig()
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=data, peft_config=lora)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
trainer = SFTTrainer("Qwen/Qwen3-30B-A3B", args=SFTConfig("out", optim="lomo"))
