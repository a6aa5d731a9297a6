import torch


def train(policy, loader):
    optimizer = torch.optim.AdamW(policy.parameters())
    policy.train()
    for batch in loader:
        logits = policy(observations=batch["seen"], attention_mask=batch["mask"]).logits
        picked = logits.log_softmax(-1).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        (-(picked * batch["returns"]).mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
