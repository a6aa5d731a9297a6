from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
model_ref = AutoModelForCausalLM.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
tokenizer = AutoTokenizer.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
data = load_dataset("argilla/dpo-mix-7k", split="train")

training_args = DPOConfig(
    output_dir="zephyr-dpo",
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    warmup_steps=0.1,
    lr_scheduler_type="cosine",
    max_steps=4,
    logging_steps=1,
    bf16=False,
    beta=0.2,
    max_length=128,
)
dpo_trainer = DPOTrainer(
    model, model_ref, args=training_args, train_dataset=data, processing_class=tokenizer
)
dpo_trainer.train()
print([entry["loss"] for entry in dpo_trainer.state.log_history if "loss" in entry])
