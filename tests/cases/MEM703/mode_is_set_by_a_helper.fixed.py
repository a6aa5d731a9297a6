import torch
from transformers import AutoModelForCausalLM


def prepare(model):
    model.eval()


def main(model, loader):
    prepare(model)
    with torch.no_grad():
        for batch in loader:
            print(model(**batch).loss.item())


main(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), loader)
