# data: messages
# fix: unsafe
import torch
from datasets import load_dataset
from peft import LoraConfig, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model_id = "meta-llama/Llama-3.1-8B"
bnb_config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained(model_id, quantization_config=bnb_config)
model = prepare_model_for_kbit_training(model)
tokenizer = AutoTokenizer.from_pretrained(model_id)

trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        "llama-four-bits",
        max_length=128,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
        bf16=True,
    ),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"),
    train_dataset=load_dataset("timdettmers/openassistant-guanaco", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
