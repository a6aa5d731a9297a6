import torch
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits


def logprobs_of(logits, tokens):
    values = torch.log_softmax(logits[:, :-1], dim=-1)
    return values.gather(-1, tokens[:, 1:, None]).squeeze(-1)


def tune(loader):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    defer_logits(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for tokens in loader:
        (-logprobs_of(model(tokens).logits, tokens).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
