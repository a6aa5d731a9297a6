# about: Let go of; never named; only the loss is.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
    del outputs
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
    outputs = None
for batch in loader:
    last = model(**batch).logits[:, -1]
    criterion(last).backward()
