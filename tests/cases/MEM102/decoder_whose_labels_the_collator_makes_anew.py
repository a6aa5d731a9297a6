from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from transformers import DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(batch):
    inputs = tokenizer(batch["question"], padding="max_length", max_length=512, truncation=True)  # expect: MEM102
    answer = tokenizer(batch["answer"], padding="max_length", max_length=512, truncation=True)  # expect: MEM102
    inputs["labels"] = answer["input_ids"]
    return inputs


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out"),
    train_dataset=dataset.map(tokenize, batched=True),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
