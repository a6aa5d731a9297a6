# about: Whoever calls it may give it adapters, or a small network.
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, optimizer, loader):
    model = DDP(model, device_ids=[0])
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
