# about: What streams needs newer libraries than these.
# target: transformers=4.46,torch=2.4
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-8B")


def collate(rows):
    return tokenizer(rows, padding="max_length", truncation=True, max_length=512, return_tensors="pt")


loader = DataLoader(texts, batch_size=8, shuffle=True, collate_fn=collate)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    loss = model(**batch.to(model.device)).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
