import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Stories(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __getitem__(self, place):
        encoded = self.tokenizer(
            self.texts[place],
            padding="max_length",
            max_length=512,
            return_tensors="pt",
        )
        return {name: part[0] for name, part in encoded.items()}


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(Stories(texts, tokenizer), batch_size=4):
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "labels") if name in batch}
    batch.update(cut)
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
