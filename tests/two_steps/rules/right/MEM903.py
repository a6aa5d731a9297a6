from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

lora = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
model = get_peft_model(model, lora)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        "out",
        bf16=False,
        max_length=128,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
