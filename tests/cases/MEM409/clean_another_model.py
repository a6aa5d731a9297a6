# about: A judge is no second copy.
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
SFTTrainer(model, SFTConfig("out"), train_dataset=dataset).train()
judge = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-14B", device_map="auto")
