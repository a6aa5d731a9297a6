# about: The class that is made makes its rows by itself.
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments


class Texts(Dataset):
    def __init__(self, rows, words):
        self.rows, self.words = rows, words

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        made = self.words(self.text(place), padding="max_length", max_length=512)
        return {**made, "labels": made["input_ids"]}


class Stories(Texts):
    def __getitem__(self, place):
        made = self.words(self.rows[place]["story"], truncation=True, max_length=512)
        return {**made, "labels": made["input_ids"]}


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True)
Trainer(model, args, train_dataset=Stories(rows, words)).train()
