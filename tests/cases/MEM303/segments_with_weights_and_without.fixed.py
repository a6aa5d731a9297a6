import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def forward(self, x, labels):
    logits = checkpoint(self.first, x, use_reentrant=False)
    return checkpoint(F.cross_entropy, logits, labels, use_reentrant=False)
