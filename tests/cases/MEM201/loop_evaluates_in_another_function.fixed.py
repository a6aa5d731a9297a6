import torch
from transformers import AutoModelForCausalLM
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
fuse_causal_lm_loss(model, fuse_evaluation=True)
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
    model(**batch).loss.backward()
    optimizer.step()
    evaluate()
