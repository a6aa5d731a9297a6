# about: Whoever makes the trainer may give it adapters, whose gradients are small.
from torch.nn.parallel import DistributedDataParallel as DDP


class Training:
    def __init__(self, model, optimizer):
        self.is_peft_model = getattr(model, "is_peft_model", False)
        self.model = DDP(model, device_ids=[0])
        self.optimizer = optimizer

    def train(self, loader):
        for batch in loader:
            self.model(**batch).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
