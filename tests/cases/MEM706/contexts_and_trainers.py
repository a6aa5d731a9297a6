import torch
from torch.autograd import set_detect_anomaly
from transformers import Trainer

set_detect_anomaly(True)  # expect: MEM706
torch.cuda.memory._record_memory_history(max_entries=100000)  # expect: MEM706
with torch.autograd.detect_anomaly():  # expect: MEM706
    Trainer(model, args, train_dataset=rows).train()
