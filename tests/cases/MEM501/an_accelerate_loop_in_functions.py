# about: The model and the loop are in functions; ``foreach``, which bitsandbytes does not take, goes with it.
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM


def build():
    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", torch_dtype=torch.float32)


def main():
    accelerator = Accelerator()
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)  # expect: MEM501
    model, optimizer, loader = accelerator.prepare(model, optimizer, make_loader())
    for batch in loader:
        outputs = model(**batch)
        accelerator.backward(outputs.loss)
        optimizer.step()
        optimizer.zero_grad()


main()
