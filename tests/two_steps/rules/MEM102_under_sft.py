# data: prompt-completion
# fix: unsafe
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
dataset = load_dataset("trl-lib/tldr", split="train")
dataset = dataset.map(
    lambda row: tokenizer(
        row["prompt"] + row["completion"], padding="max_length", truncation=True, max_length=128
    ),
    remove_columns=dataset.column_names,
)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        "out", per_device_train_batch_size=4, learning_rate=1e-3, max_steps=3, logging_steps=1
    ),
    train_dataset=dataset,
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
