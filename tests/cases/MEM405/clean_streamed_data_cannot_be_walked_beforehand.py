# about: Streamed data cannot be walked beforehand.
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

data = load_dataset("trl-lib/ultrafeedback_binarized", split="train", streaming=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
trainer = DPOTrainer(model, args=DPOConfig("out", max_steps=100), train_dataset=data)
