import lightning
import torch


class Module(lightning.LightningModule):
    def training_step(self, batch, index):
        loss = self.model(**batch).loss
        self.losses.append(loss.detach())
        self.rows.append({"step": index, "loss": (loss / 2).detach()})
        return {"loss": loss}

    def on_train_epoch_end(self):
        self.log("mean", torch.stack(self.losses).mean())
        self.losses.clear()
