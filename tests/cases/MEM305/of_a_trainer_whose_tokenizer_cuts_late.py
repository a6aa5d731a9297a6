# about: the number is computed; the model is checkpointed
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

LONG = 32 * 1024
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")


def cut(rows):
    return tokenizer(rows["text"], truncation=True, max_length=LONG)


args = TrainingArguments("out", gradient_checkpointing=True)  # expect: MEM305
Trainer(model, args, train_dataset=dataset.map(cut, batched=True)).train()
