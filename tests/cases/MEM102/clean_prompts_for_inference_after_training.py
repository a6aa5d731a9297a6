# about: prompts that only `generate` reads, in a helper, are no training examples
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
raw = load_dataset("imdb", split="train")


def encode(row):
    return tokenizer(row["text"], truncation=True, padding="max_length", max_length=512)


def answer(batch):
    return model.generate(**batch, max_new_tokens=64)


examples = raw.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512))
collator = DataCollatorForSeq2Seq(tokenizer)
Trainer(model, args, train_dataset=examples, data_collator=collator).train()
questions = load_dataset("imdb", split="train[:64]").map(encode)
answers = [answer(batch) for batch in DataLoader(questions, batch_size=8)]
for batch in DataLoader(questions, batch_size=8):
    print(tokenizer.batch_decode(answer(batch)))
