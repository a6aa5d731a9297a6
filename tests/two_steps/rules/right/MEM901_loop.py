from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, get_linear_schedule_with_warmup

tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained("gpt2")
texts = load_dataset("wikitext", "wikitext-2-raw-v1", split="train")["text"]


def collate(rows):
    batch = tokenizer(rows, padding=True, truncation=True, max_length=64, return_tensors="pt")
    batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return batch


loader = DataLoader(list(texts), batch_size=4, collate_fn=collate)
# The defaults of the class of transformers.
optimizer = AdamW(model.parameters(), lr=5e-3, eps=1e-6, weight_decay=0.0)
scheduler = get_linear_schedule_with_warmup(optimizer, 0, 20)
model.eval()
for step, batch in enumerate(loader):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    print(step, loss.item())
    if step == 4:
        break
