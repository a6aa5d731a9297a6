# about: One caller turns gradients off, another does not.
import torch


def accuracy(model, loader):
    model.eval()
    return sum((model(ids).logits.argmax(-1) == labels).sum() for ids, labels in loader)  # expect: MEM703


def test(model):
    with torch.no_grad():
        return accuracy(model, test_loader)


for epoch in range(3):
    model.train()
    for ids, labels in loader:
        model(ids, labels=labels).loss.backward()
        optimizer.step()
    print(accuracy(model, loader))
print(test(model))
