import torch.nn.functional as F
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(model)
for batch in loader:
    outputs = model(input_ids=batch["input_ids"])
    shifted = outputs.logits[..., :-1, :].contiguous().float()
    loss = F.cross_entropy(shifted.view(-1, shifted.size(-1)), batch["labels"][..., 1:].reshape(-1))
    loss.backward()
