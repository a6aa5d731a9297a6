# data: preference
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

model_name = "Qwen/Qwen2-0.5B-Instruct"
model = AutoModelForCausalLM.from_pretrained(model_name)
tokenizer = AutoTokenizer.from_pretrained(model_name)
train_dataset = load_dataset("trl-lib/ultrafeedback_binarized", split="train")

orpo_args = ORPOConfig(
    output_dir="orpo-qwen",
    beta=0.1,
    max_length=256,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
    bf16=False,
)
trainer = ORPOTrainer(
    model=model,
    args=orpo_args,
    processing_class=tokenizer,
    train_dataset=train_dataset,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
