# about: Logits that nothing shifts may be of a few classes.
import torch.nn.functional as F
from transformers import Trainer


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        return F.cross_entropy(outputs.logits, inputs["labels"], reduction="none").mean()
