# about: An optimizer takes tensors that are on its device for its states as they are.
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())

    def resume(self, folder):
        self.optimizer.load_state_dict(torch.load(f"{folder}/optimizer.pt"))

    def train(self, loader):
        for batch in loader:
            self.model(**batch).loss.backward()
            self.optimizer.step()
