# about: What calls the helper is itself called by what stands below it and turns gradients off.
import torch
from transformers import AutoModel


class Score:
    def __init__(self):
        self.model = AutoModel.from_pretrained("Qwen/Qwen3-0.6B")

    def features(self, samples):
        self.model.eval()
        return self.model(samples)[0].mean(0).float().cpu()

    def prepare(self, loader):
        self.real = [self.features(samples) for samples in loader]

    @torch.inference_mode()
    def of(self, loader):
        self.prepare(loader)
        return [self.features(samples) for samples in loader]
