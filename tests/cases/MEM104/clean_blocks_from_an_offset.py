import torch
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")


class Books(Dataset):
    def __init__(self, text, size, offset):
        self.ids = torch.tensor(tokenizer.encode(text))
        self.size, self.offset = size, offset

    def __len__(self):
        return (len(self.ids) - self.offset) // self.size

    def __getitem__(self, i):
        return self.ids[i * self.size + self.offset : (i + 1) * self.size + self.offset]


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=16, bf16=True)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
Trainer(model, args, train_dataset=Books(text, 512, 0), data_collator=collator).train()
