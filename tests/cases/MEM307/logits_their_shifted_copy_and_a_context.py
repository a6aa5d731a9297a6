import torch
from transformers import AutoModelForCausalLM


def train(model, loader, optimizer, accelerator):
    for epoch in range(3):
        for batch in loader:
            with accelerator.accumulate(model):
                logits = model(batch["input_ids"]).logits  # expect: MEM307
                shifted = logits[:, :-1].contiguous()
                loss = criterion(shifted.flatten(0, 1), batch["labels"][:, 1:].flatten())
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            print(loss.item())
        for batch in test_loader:
            logits = model(batch["input_ids"]).logits
            print(logits.argmax(-1))


train(AutoModelForCausalLM.from_pretrained("gpt2"), loader, optimizer, accelerator)
