# before: DPOTrainer reads options that plain arguments lack
# data: preference
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = DPOTrainer(
    model,
    args=TrainingArguments("out", per_device_train_batch_size=2, max_steps=3, logging_steps=1),
    train_dataset=load_dataset("argilla/dpo-mix-7k", split="train"),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
