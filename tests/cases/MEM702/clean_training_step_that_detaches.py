import lightning
import torch


class Module(lightning.LightningModule):
    def training_step(self, batch, index):
        parts = []
        loss = self.model(**batch).loss
        self.losses.append(loss.detach())
        parts.append(loss)
        self.seen.append(index)
        value = loss.item()
        self.losses.append(value)
        return loss

    def validation_step(self, batch, index):
        loss = self.model(**batch).loss
        self.losses.append(loss)
        return loss
