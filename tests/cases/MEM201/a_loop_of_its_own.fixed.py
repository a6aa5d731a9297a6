from transformers import AutoModelForCausalLM
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
fuse_causal_lm_loss(model, fuse_evaluation=True)
for batch in loader:
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
