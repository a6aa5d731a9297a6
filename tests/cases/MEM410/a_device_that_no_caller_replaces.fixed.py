import torch


def train(model, loader, device="cuda"):
    optimizer = torch.optim.AdamW(model.parameters())
    state = torch.load("last.pt", map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train(model, loader)
