# about: Without gradients too, the outputs are gone with the expression or the function.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
frozen = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    with torch.no_grad():
        target = frozen(**batch).logits
    distance(model(**batch).logits, target).backward()
