import torch
from transformers import AutoModelForCausalLM


def token_logprobs_of(logits, tokens):
    logprobs = torch.log_softmax(logits, dim=-1)  # expect: MEM204
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    return torch.gather(logprobs, dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1), entropy


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    chosen, entropy = token_logprobs_of(outputs.logits[:, :-1, :], batch["input_ids"][:, 1:])
    (-chosen.mean()).backward()
