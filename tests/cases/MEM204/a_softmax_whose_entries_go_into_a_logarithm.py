# about: a floor under the shares, or none; in place of a log-softmax, in a helper, in one line
import torch
from transformers import AutoModelForCausalLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(policy.parameters())


def chosen(logits, tokens):
    shares = torch.softmax(logits, dim=-1)  # expect: MEM204
    of_tokens = shares.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return (of_tokens + 1e-8).log()


for tokens, weights in loader:
    out = policy(tokens).logits[:, :-1]
    wanted = tokens[:, 1:]
    loss = -(chosen(out, wanted) * weights).mean()
    picked = out.softmax(-1).gather(2, wanted[..., None])[..., 0]  # expect: MEM204
    loss = loss - picked.clamp(min=1e-6).log().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
