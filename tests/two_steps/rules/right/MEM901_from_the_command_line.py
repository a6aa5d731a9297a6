from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

training_args = DPOConfig(
    "out",
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    max_steps=4,
    logging_steps=1,
    beta=0.3,
    max_length=256,
    bf16=False,
)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = DPOTrainer(
    model,
    args=training_args,
    train_dataset=load_dataset("argilla/dpo-mix-7k", split="train"),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
