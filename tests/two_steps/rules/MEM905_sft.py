# data: messages
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, TrainingArguments
from trl import SFTTrainer

options = {
    "output_dir": "out",
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_steps": 3,
    "logging_steps": 1,
}
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"),
    args=TrainingArguments(**options),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
    peft_config=LoraConfig(r=8, target_modules="all-linear", lora_dropout=0.1),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
