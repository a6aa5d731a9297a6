from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("google/gemma-3-270m")
SFTTrainer(model, SFTConfig("out"), train_dataset=dataset).train()
base = AutoModelForCausalLM.from_pretrained("google/gemma-3-270m", device_map="auto")
