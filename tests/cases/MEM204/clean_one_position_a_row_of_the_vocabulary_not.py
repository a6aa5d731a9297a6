# about: One position: a row of the vocabulary, not a matrix.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    logprobs = torch.log_softmax(model(**batch).logits[:, -1], dim=-1)
    logprobs.gather(-1, batch["answer"].unsqueeze(-1)).mean().neg().backward()
