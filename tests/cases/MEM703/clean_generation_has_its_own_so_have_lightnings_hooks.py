# about: Generation has its own; so have Lightning's hooks.
import lightning
import torch


class Module(lightning.LightningModule):
    def validation_step(self, batch):
        self.model.eval()
        return self.model(**batch).loss


model.eval()
print(model.generate(ids))
