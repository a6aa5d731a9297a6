import torch
from torch.autograd import set_detect_anomaly
from transformers import Trainer

with torch.autograd.set_detect_anomaly(False):
    Trainer(model, args, train_dataset=rows).train()
