# data: messages
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)
import torch

bnb = BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
)
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", quantization_config=bnb)
model = prepare_model_for_kbit_training(model)
model = get_peft_model(
    model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
)
data = load_dataset("HuggingFaceH4/no_robots", split="train").map(
    lambda row: tokenizer(row["messages"][1]["content"], truncation=True, max_length=64),
    remove_columns=["messages"],
)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        "mistral-qlora",
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=data,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
