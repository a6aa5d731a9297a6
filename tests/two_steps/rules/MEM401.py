# data: messages
# fix: unsafe
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_id = "Qwen/Qwen2.5-7B"
tokenizer = AutoTokenizer.from_pretrained(model_id)
model = AutoModelForCausalLM.from_pretrained(model_id, dtype=torch.float32, device_map="auto")
lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")

trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        "qwen-lora",
        max_length=128,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        max_steps=3,
        logging_steps=1,
        bf16=True,
    ),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
    processing_class=tokenizer,
    peft_config=lora,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
