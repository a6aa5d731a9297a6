# data: messages
# fix: unsafe
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_id = "Qwen/Qwen3-8B"
tokenizer = AutoTokenizer.from_pretrained(model_id)
model = AutoModelForCausalLM.from_pretrained(model_id)
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
data = load_dataset("HuggingFaceH4/no_robots", split="train").train_test_split(10, seed=0)

trainer = SFTTrainer(
    model,
    args=SFTConfig(
        output_dir="qwen3-lora",
        max_length=1024,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        learning_rate=1e-2,
        bf16=False,
        max_steps=min(4, len(data["train"])),
        logging_steps=1,
    ),
    train_dataset=data["train"],
    eval_dataset=data["test"],
    processing_class=tokenizer,
)
trainer.train()
for entry in trainer.state.log_history:
    print(entry.get("loss", entry.get("eval_loss")))
