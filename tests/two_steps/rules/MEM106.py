# data: prompt-completion
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_name = "Qwen/Qwen3-0.6B"
tokenizer = AutoTokenizer.from_pretrained(model_name)
model = AutoModelForCausalLM.from_pretrained(model_name, dtype="float32")
dataset = load_dataset("trl-lib/tldr", split="train")

training_args = SFTConfig(
    output_dir="packed",
    packing=True,
    max_length=128,
    per_device_train_batch_size=4,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    model=model, args=training_args, train_dataset=dataset, processing_class=tokenizer
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
