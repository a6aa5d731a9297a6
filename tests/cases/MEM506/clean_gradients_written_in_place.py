# about: The script adds to the gradients itself.
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(model)
for batch in loader:
    model(**batch).loss.backward()
    for parameter in model.parameters():
        parameter.grad += noise
    optimizer.step()
