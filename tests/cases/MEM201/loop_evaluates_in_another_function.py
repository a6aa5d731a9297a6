# about: Training counts; evaluation, whose mode is set by its caller, does not.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())


def losses(batches):
    with torch.no_grad():
        return [model(**batch).loss.item() for batch in batches]


def evaluate():
    model.eval()
    found = losses(held_out)
    model.train()
    return sum(found)


for batch in loader:
    model(**batch).loss.backward()  # expect: MEM201
    optimizer.step()
    evaluate()
