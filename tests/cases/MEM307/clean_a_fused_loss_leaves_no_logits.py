# about: A fused loss leaves no logits.
from memlint_runtime import fuse_causal_lm_loss
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
fuse_causal_lm_loss(model)
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
