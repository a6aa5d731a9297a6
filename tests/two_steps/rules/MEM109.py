# data: preference
# fix: unsafe
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

dataset = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-1.5B-Instruct", dtype=torch.float32)
args = DPOConfig(
    "out",
    per_device_train_batch_size=4,
    max_length=2048,
    max_steps=min(3, len(dataset)),
    logging_steps=1,
    bf16=False,
)
trainer = DPOTrainer(model, args=args, train_dataset=dataset)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
