from accelerate import Accelerator, DistributedDataParallelKwargs
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(10, 5)

    def forward(self, numbers):
        return self.inner(numbers)


kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)
accelerator = Accelerator(kwargs_handlers=[kwargs])
model = Net()
model, optimizer = accelerator.prepare(model, optimizer)
for numbers in accelerator.prepare(loader):
    accelerator.backward(model(numbers).mean())
    optimizer.step()
    optimizer.zero_grad()
