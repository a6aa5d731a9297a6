import torch


class Tuner:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def one(self, batch):
        self.model(**batch).loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.free()

    def free(self):
        pass

    def run(self, loader):
        for _ in range(3):
            for batch in loader:
                self.one(batch)


Tuner(model, optimizer).run(loader)
