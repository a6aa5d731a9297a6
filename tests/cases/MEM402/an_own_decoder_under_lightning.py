import lightning as L
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, words=50257, width=512):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(12))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        states = self.table(ids)
        for layer in self.layers:
            states = states + layer(states)
        return self.head(states)


class Tuned(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.decoder = Decoder()

    def training_step(self, batch, batch_idx):
        ids, targets = batch
        logits = self.decoder(ids)
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


L.Trainer(max_epochs=1, accelerator="gpu").fit(Tuned(), loader)  # expect: MEM402
