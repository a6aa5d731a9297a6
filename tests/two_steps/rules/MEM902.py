# data: preference
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", torch_dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

args = DPOConfig(
    output_dir="out",
    per_device_train_batch_size=2,
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False},
    learning_rate=1e-3,
    bf16=False,
    max_steps=4,
    logging_steps=1,
)
trainer = DPOTrainer(
    model=model,
    args=args,
    processing_class=tokenizer,
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
