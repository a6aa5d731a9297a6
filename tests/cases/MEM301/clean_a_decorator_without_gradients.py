import torch
from transformers import AutoModelForCausalLM

network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
adam = torch.optim.AdamW(network.parameters())


def frozen(function):
    def call(*args, **kwargs):
        with torch.no_grad():
            return function(*args, **kwargs)

    return call


@frozen
def score(batch):
    return network(**batch).loss


for batch in loader:
    print(score(batch))
    adam.step()
