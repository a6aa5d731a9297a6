# about: Nothing here names the functions: whoever imports the file runs the loop.
import torch
from transformers import AutoModelForCausalLM


def logprobs_of(logits, tokens):
    values = torch.log_softmax(logits[:, :-1], dim=-1)  # expect: MEM204
    return values.gather(-1, tokens[:, 1:, None]).squeeze(-1)


def tune(loader):
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    optimizer = torch.optim.AdamW(model.parameters())
    for tokens in loader:
        (-logprobs_of(model(tokens).logits, tokens).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
