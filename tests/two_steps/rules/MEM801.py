# data: source,target
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq

tokenizer = AutoTokenizer.from_pretrained("google/flan-t5-small")
model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-small").to("cuda")
data = load_dataset("opus_books", "en-fr", split="train")
data = data.map(
    lambda rows: tokenizer(
        rows["source"], text_target=rows["target"], truncation=True, max_length=64
    ),
    batched=True,
    remove_columns=data.column_names,
)
loader = DataLoader(
    data, batch_size=8, shuffle=False, collate_fn=DataCollatorForSeq2Seq(tokenizer, model)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step, batch in enumerate(loader):
    torch.manual_seed(step)
    loss = model(**batch.to("cuda")).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
    if step == 3:
        break
