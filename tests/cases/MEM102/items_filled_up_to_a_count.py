import torch
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments


class Answers(Dataset):
    def __init__(self, rows, words, most):
        self.rows, self.words, self.most = rows, words, most

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        ids = self.words(self.rows[place]["text"])["input_ids"]
        count = len(ids)
        if count > self.most:
            ids = labels = ids[: self.most]
        else:
            labels = ids + [-100] * (self.most - count)  # expect: MEM102
            ids = ids + [self.words.pad_token_id] * (self.most - count)
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}


words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=8)
Trainer(model, args, train_dataset=Answers(rows, words, 512)).train()
