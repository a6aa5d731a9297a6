# about: confidences that are shown, a softmax over labels, an entropy, of sampled words
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)
judge = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen2.5-1.5B")
optimizer = torch.optim.AdamW([*policy.parameters(), *judge.parameters()])

for tokens, kinds in loader:
    out = policy(tokens, labels=tokens)
    with torch.no_grad():
        shares = out.logits.softmax(-1)
        sure = shares.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).log().mean()
        drawn = torch.multinomial(shares[:, -1], 1)
    of_kinds = judge(tokens).logits.softmax(-1)
    loss = out.loss - of_kinds.gather(-1, kinds.unsqueeze(-1)).squeeze(-1).log().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(sure.item(), drawn)
