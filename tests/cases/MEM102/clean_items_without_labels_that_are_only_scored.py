import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Stories(Dataset):
    def __getitem__(self, place):
        encoded = tokenizer(texts[place], padding="max_length", max_length=512)
        return torch.tensor(encoded["input_ids"])


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    for ids in DataLoader(Stories(), batch_size=4):
        print(model(ids, labels=ids).loss)
