import torch
import torch.nn.functional as F
from memlint_runtime.losses import defer_logits


def token_logprobs(logits, labels):
    index = labels.masked_fill(labels == -100, 0).unsqueeze(2)
    picked = logits.log_softmax(-1).gather(2, index).squeeze(2)
    return (picked * (labels != -100)).sum(-1)


def train(net, loader):
    optimizer = torch.optim.AdamW(net.parameters())
    net.train()
    for batch in loader:
        with defer_logits(net):
            pairs = [
                token_logprobs(
                    net(
                        input_ids=batch[f"{side}_ids"],
                        attention_mask=batch[f"{side}_mask"],
                    ).logits,
                    batch[f"{side}_labels"],
                )
                for side in ("chosen", "rejected")
            ]
        (-F.logsigmoid(pairs[0] - pairs[1]).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
