# data: messages
# fix: unsafe
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-70B", dtype="bfloat16")
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        "llama-70b-lora",
        max_length=128,
        per_device_train_batch_size=1,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
        bf16=True,
    ),
    peft_config=LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
