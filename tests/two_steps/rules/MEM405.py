# data: preference
# fix: unsafe
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model_name = "mistralai/Mistral-7B-Instruct-v0.3"
model = AutoModelForCausalLM.from_pretrained(model_name)
model_ref = AutoModelForCausalLM.from_pretrained(model_name)
tokenizer = AutoTokenizer.from_pretrained(model_name)

trainer = DPOTrainer(
    model,
    model_ref,
    args=DPOConfig(
        "mistral-dpo",
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
        bf16=False,
    ),
    train_dataset=load_dataset("argilla/dpo-mix-7k", split="train"),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
