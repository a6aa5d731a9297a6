# fix: unsafe
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(dataset, batch_size=8, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

model.train()
for batch in loader:
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

model.eval()
all_logits, all_labels = [], []
with torch.no_grad():
    for batch in loader:
        batch = batch.to("cuda")
        outputs = model(**batch)
        all_logits.append(outputs.logits)
        all_labels.append(batch["labels"])
right = counted = 0
for logits, labels in zip(all_logits, all_labels):
    predictions = logits[:, :-1].argmax(-1).cpu()
    wanted = labels[:, 1:].cpu()
    right += ((predictions == wanted) & (wanted != -100)).sum().item()
    counted += (wanted != -100).sum().item()
print("accuracy", right / counted)
