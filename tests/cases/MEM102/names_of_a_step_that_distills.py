# about: Rows of tensors: a step cuts off what is padding in all of its batch, for both models.
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


class Stories(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, place):
        words = self.tokenizer(
            self.texts[place],
            padding="max_length",  # expect: MEM102
            max_length=256,
            truncation=True,
            return_tensors="pt",
        )
        ids = words["input_ids"].squeeze(0)
        mask = words["attention_mask"].squeeze(0)
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B").cuda().eval()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
stories = Stories(load_dataset("imdb", split="train")["text"], tokenizer)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for number, batch in enumerate(DataLoader(stories, batch_size=8)):
    ids = batch["input_ids"].cuda()
    mask = batch["attention_mask"].cuda()
    labels = batch["labels"].cuda()
    with torch.no_grad():
        wanted = teacher(input_ids=ids, attention_mask=mask).logits.softmax(dim=-1)
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = torch.nn.functional.kl_div(logits.log_softmax(dim=-1), wanted)
    loss += torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.view(-1))
    loss.backward()
    if (number + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
