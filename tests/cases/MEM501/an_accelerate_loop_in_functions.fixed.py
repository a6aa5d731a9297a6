import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
from bitsandbytes.optim import AdamW8bit


def build():
    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", torch_dtype=torch.float32)


def main():
    accelerator = Accelerator()
    model = build()
    optimizer = AdamW8bit(model.parameters(), lr=1e-5)
    model, optimizer, loader = accelerator.prepare(model, optimizer, make_loader())
    for batch in loader:
        outputs = model(**batch)
        accelerator.backward(outputs.loss)
        optimizer.step()
        optimizer.zero_grad()


main()
