from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
loader = DataLoader(rows, batch_size=8, collate_fn=collate, pin_memory=True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
args = TrainingArguments(
    "out",
    dataloader_pin_memory=True,
)
Trainer(model, args, train_dataset=rows).train()
