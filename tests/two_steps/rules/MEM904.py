# data: preference
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", low_cpu_mem_usage=True)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B", use_fast=True)
args = DPOConfig(
    "out",
    padding_free=True,
    max_length=256,
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = DPOTrainer(
    model=model,
    args=args,
    train_dataset=load_dataset("argilla/dpo-mix-7k", split="train"),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
