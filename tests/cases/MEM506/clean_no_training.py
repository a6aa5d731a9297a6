# about: Nothing runs backward here: ``Trainer`` is a word of the text alone.
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(model)
print(evaluate(model, "Trainer"))
