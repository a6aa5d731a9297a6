from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from transformers import DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(batch):
    inputs = tokenizer(batch["question"], max_length=512, truncation=True)
    answer = tokenizer(batch["answer"], max_length=512, truncation=True)
    return inputs


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out"),
    train_dataset=dataset.map(tokenize, batched=True),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
