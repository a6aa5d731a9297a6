# about: Evaluation: nothing is kept for a backward pass.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    model(**batch).loss.backward()
with torch.no_grad():
    logprobs = torch.log_softmax(model(**batch).logits[:, :-1], dim=-1)
    print(logprobs.gather(-1, batch["input_ids"][:, 1:].unsqueeze(-1)).mean())
