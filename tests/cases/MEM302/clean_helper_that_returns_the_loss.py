# about: The outputs are gone when the helper returns: autograd alone keeps the keys and values.
from transformers import AutoModelForCausalLM


def loss_of(model, batch):
    outputs = model(**batch)
    return outputs.loss


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss_of(model, batch).backward()
