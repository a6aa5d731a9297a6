# about: Without a library of language models, logits may be of a few actions.
import torch


def log_probabilities(logits, actions):
    logps = logits[:, :-1].log_softmax(dim=-1)
    return logps.gather(2, actions[:, 1:].unsqueeze(2)).squeeze(2)


for batch in loader:
    loss = -log_probabilities(net(batch["states"]), batch["actions"]).mean()
    loss.backward()
