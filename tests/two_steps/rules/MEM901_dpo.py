# with: MEM905
# data: preference
# before: DPOTrainer takes its options from its configuration now
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DPOTrainer

model = AutoModelForCausalLM.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
model_ref = AutoModelForCausalLM.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
tokenizer = AutoTokenizer.from_pretrained("HuggingFaceH4/zephyr-7b-beta")
data = load_dataset("argilla/dpo-mix-7k", split="train")

training_args = TrainingArguments(
    output_dir="zephyr-dpo",
    per_device_train_batch_size=2,
    learning_rate=1e-3,
    warmup_ratio=0.1,
    lr_scheduler_type="cosine",
    max_steps=4,
    logging_steps=1,
    remove_unused_columns=False,
    bf16=False,
)
dpo_trainer = DPOTrainer(
    model,
    model_ref,
    args=training_args,
    beta=0.2,
    train_dataset=data,
    tokenizer=tokenizer,
    max_length=128,
    max_prompt_length=None,
)
dpo_trainer.train()
print([entry["loss"] for entry in dpo_trainer.state.log_history if "loss" in entry])
