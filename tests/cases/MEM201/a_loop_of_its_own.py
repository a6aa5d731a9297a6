# about: A loop of its own.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss = model(**batch, use_cache=False).loss  # expect: MEM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
