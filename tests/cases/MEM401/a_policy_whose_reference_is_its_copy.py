# target: trl=0.25
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct", dtype="float32")  # expect: MEM401
DPOTrainer(model=model, args=DPOConfig("out"), train_dataset=rows).train()
