# data: instruction,output
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

base = "mistralai/Mistral-7B-v0.3"
tokenizer = AutoTokenizer.from_pretrained(base)
model = AutoModelForCausalLM.from_pretrained(base)
model = get_peft_model(
    model,
    LoraConfig(
        r=8,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        task_type="CAUSAL_LM",
    ),
)
model.print_trainable_parameters()


def tokenize(row):
    ids = tokenizer(f"{row['instruction']}\n{row['output']}", truncation=True, max_length=128)
    ids["labels"] = list(ids["input_ids"])
    return ids


dataset = load_dataset("databricks/databricks-dolly-15k", split="train")
dataset = dataset.map(tokenize, remove_columns=dataset.column_names)

args = TrainingArguments(
    output_dir="mistral-lora",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=1e-2,
    warmup_steps=1,
    max_steps=4,
    logging_steps=1,
    optim="adamw_torch",
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=dataset,
    data_collator=DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=8),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
