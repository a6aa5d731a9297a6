import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
for step, batch in enumerate(loader):
    optimizer.zero_grad()
    outputs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    shifted = outputs.logits[:, :-1].transpose(1, 2)
    loss = torch.nn.functional.cross_entropy(shifted, batch["labels"][:, 1:])
    loss.backward(retain_graph=True)
    optimizer.step()
    scheduler.step()
    print("step", step, "loss", loss.item())
    if step == 4:
        break
