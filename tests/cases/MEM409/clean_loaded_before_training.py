# about: A reference is there while training runs, on purpose.
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
reference = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
DPOTrainer(model, reference, args=DPOConfig("out"), train_dataset=dataset).train()
