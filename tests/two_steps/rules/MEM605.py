# data: preference
from datasets import load_dataset
from memlint_runtime import truncate_text
from transformers import AutoTokenizer
from trl import DPOConfig, DPOTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-4B")
dataset = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
dataset = dataset.map(truncate_text, fn_kwargs={"tokenizer": tokenizer, "max_length": 3072})

args = DPOConfig(
    output_dir="dpo",
    max_length=4096,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
