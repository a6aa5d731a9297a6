import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

accelerator = Accelerator()
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-410m")
model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m")
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset,
    shuffle=True,
    batch_size=4,
    collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
model.train()
for step, batch in enumerate(loader):
    model.zero_grad(set_to_none=False)
    loss = model(**batch).loss
    accelerator.backward(loss)
    if accelerator.sync_gradients:
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    accelerator.print(f"{step}: {loss.item():.7f}")
    if step == 3:
        break
