# data: messages
# fix: unsafe
"""What was trained is loaded again to be tried."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-8B"
model = AutoModelForCausalLM.from_pretrained(MODEL)
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=2, per_device_train_batch_size=2, max_length=64, logging_steps=1),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
    processing_class=AutoTokenizer.from_pretrained(MODEL),
    peft_config=LoraConfig(r=8, target_modules="all-linear"),
)
trainer.train()
trainer.save_model("out")
again = AutoModelForCausalLM.from_pretrained(MODEL, device_map="auto")
print(sum(weight.numel() for weight in again.parameters()))
