from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
SFTTrainer(model, SFTConfig("out"), train_dataset=dataset).train()
one = AutoModelForCausalLM.from_pretrained("out", device_map="auto")  # expect: MEM409
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="auto")
