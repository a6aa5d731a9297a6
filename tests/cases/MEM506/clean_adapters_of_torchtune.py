# about: A recipe that trains an adapter: its gradients are small.
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torchtune import config, training
from torchtune.modules.peft import get_adapter_params, set_trainable_params


def setup(cfg, device):
    model = config.instantiate(cfg.model)
    model.load_state_dict(torch.load(cfg.checkpoint, map_location="cpu"))
    set_trainable_params(model, get_adapter_params(model))
    model = DDP(model.to(device), device_ids=[device])
    return model, config.instantiate(cfg.optimizer, model.parameters())


def train(model, optimizer, loader):
    for batch in loader:
        model(batch["tokens"]).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
