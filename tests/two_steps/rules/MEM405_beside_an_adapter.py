# data: preference
# fix: unsafe
import copy

from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer, create_reference_model

name = "HuggingFaceH4/zephyr-7b-beta"
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name)
ref_model = copy.deepcopy(model)
model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
trainer = DPOTrainer(
    model=model,
    ref_model=ref_model,
    args=DPOConfig(
        "zephyr",
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        bf16=False,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=load_dataset("argilla/dpo-mix-7k", split="train"),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
