from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer
from transformers import DataCollatorForLanguageModeling, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(example):
    tokens = tokenizer(
        example["text"],
        truncation=True,
        max_length=512,
    )
    return tokens


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out"),
    train_dataset=dataset.map(tokenize),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
