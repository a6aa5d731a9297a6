# data: instruction,output
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

base_model = "meta-llama/Llama-2-7b-hf"
tokenizer = AutoTokenizer.from_pretrained(base_model)
model = AutoModelForCausalLM.from_pretrained(base_model)
config = LoraConfig(
    r=8,
    lora_alpha=16,
    target_modules=["q_proj", "v_proj", "lm_head"],
    lora_dropout=0.0,
    bias="none",
    task_type="CAUSAL_LM",
)
model = get_peft_model(model, config)
data = load_dataset("yahma/alpaca-cleaned", split="train")
data = data.map(
    lambda row: tokenizer(row["instruction"] + row["output"], truncation=True, max_length=96),
    remove_columns=data.column_names,
)
trainer = Trainer(
    model=model,
    train_dataset=data,
    args=TrainingArguments(
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        warmup_steps=1,
        learning_rate=1e-2,
        max_steps=3,
        logging_steps=1,
        output_dir="lora-alpaca",
    ),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
model.config.use_cache = False
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
