# about: Whatever it is told to train is some 50 million weights.
import torch
import torchvision.models as models
from torch.nn.parallel import DistributedDataParallel as DDP

arch = "resnet50"
model = DDP(models.__dict__[arch]().cuda(), device_ids=[0])
for images, targets in loader:
    loss = torch.nn.functional.cross_entropy(model(images), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
