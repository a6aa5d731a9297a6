# data: messages
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-3B")
trainer = SFTTrainer(
    model,
    args=SFTConfig(
        "out",
        padding_free=True,
        max_length=None,
        assistant_only_loss=False,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        bf16=False,
        max_steps=3,
        logging_steps=1,
    ),
    peft_config=LoraConfig(r=8, target_modules="all-linear"),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
