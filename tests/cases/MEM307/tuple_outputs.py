# about: Outputs read as a tuple.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss, logits = model(batch["ids"], labels=batch["ids"], return_dict=False)[:2]  # expect: MEM307
    loss.backward()
