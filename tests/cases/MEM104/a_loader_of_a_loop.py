import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def prepare(row):
    ids = tokenizer(row["text"], truncation=True, max_length=2048)["input_ids"]
    return {"input_ids": ids, "labels": ids}


rows = load_dataset("imdb", split="train").map(prepare, remove_columns=["text", "label"])
collator = DataCollatorForSeq2Seq(tokenizer)
loader = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collator)  # expect: MEM104
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch.to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
