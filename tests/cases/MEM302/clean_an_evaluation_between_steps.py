# about: Without gradients too, the outputs are gone with the expression or the function.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
frozen = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    distance(model(**batch).logits, batch["labels"]).backward()
    with torch.no_grad():
        total += frozen(**batch)["loss"].item()
