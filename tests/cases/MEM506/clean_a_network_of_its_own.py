# about: A network that the script writes itself, or a layer: nobody says that it is large, and gradients are as large as it is.
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(10, 5)

    def forward(self, numbers):
        return self.inner(numbers)


model = DDP(Net().cuda(), device_ids=[0])
other = DDP(nn.Linear(20, 1).cuda(), device_ids=[0])
for batch in loader:
    (model(batch) + other(batch)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
