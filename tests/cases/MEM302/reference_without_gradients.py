# about: The outputs of a pass without gradients live as long as their name.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
frozen = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    with torch.no_grad():
        target = frozen(**batch)  # expect: MEM302
    distance(model(**batch).logits, target.logits).backward()
