from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorWithFlattening

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def step(batch):
    loss = model(use_cache=False, **batch).loss
    loss.backward()


for batch in DataLoader(dataset, collate_fn=DataCollatorWithFlattening()):
    step(batch)
