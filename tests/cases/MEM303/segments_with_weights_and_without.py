# about: A segment with weights, whose input wants no gradient, gets gradients by the other kind alone.
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def forward(self, x, labels):
    logits = checkpoint(self.first, x, use_reentrant=True)  # expect: MEM303
    return checkpoint(F.cross_entropy, logits, labels, use_reentrant=True)  # expect: MEM303
