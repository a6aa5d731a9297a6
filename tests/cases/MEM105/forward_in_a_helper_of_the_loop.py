# about: the loop leaves forward and backward to a function
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorWithFlattening

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def step(batch):
    loss = model(**batch).loss  # expect: MEM105
    loss.backward()


for batch in DataLoader(dataset, collate_fn=DataCollatorWithFlattening()):
    step(batch)
