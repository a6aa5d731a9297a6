# about: A helper calls `eval()`.
import torch
from transformers import AutoModelForCausalLM


def prepare(model):
    model.eval()


def main(model, loader):
    prepare(model)
    for batch in loader:
        print(model(**batch).loss.item())  # expect: MEM703


main(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), loader)
