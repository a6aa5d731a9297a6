# data: preference
# fix: unsafe
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

data = load_dataset("argilla/dpo-mix-7k", split="train")
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B-Instruct")
tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-3.1-8B-Instruct")
args = DPOConfig(
    "llama-dpo",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    learning_rate=1e-2,
    bf16=False,
    max_steps=min(3, len(data)),
    logging_steps=1,
)
trainer = DPOTrainer(
    model,
    args=args,
    train_dataset=data,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
