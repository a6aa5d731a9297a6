# about: Actions of a small policy.
import torch

for state, action in episodes:
    logits = policy(state)
    logprob = torch.log_softmax(logits, dim=-1).gather(-1, action.unsqueeze(-1))
    (-logprob.mean()).backward()
