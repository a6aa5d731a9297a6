# about: One function trains and evaluates; a flag sets the mode and the gradients.
import torch


def run(model, loader, train):
    if train:
        model.train()
    else:
        model.eval()
    with torch.set_grad_enabled(train):
        for batch in loader:
            loss = model(**batch).loss
            if train:
                loss.backward()


run(model, loader, True)
run(model, test_loader, False)
