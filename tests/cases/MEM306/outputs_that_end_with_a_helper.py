# about: The outputs are gone before backward, which needs the hidden states itself: a hint.
from transformers import AutoModelForCausalLM


def loss_of(model, batch):
    outputs = model(**batch, output_hidden_states=True)  # expect: MEM306 hint
    return outputs.loss


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss_of(model, batch).backward()
