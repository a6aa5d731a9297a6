import pytorch_lightning as pl
import torch
from transformers import AutoModelForCausalLM


class Tuned(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.lm = AutoModelForCausalLM.from_pretrained("gpt2")

    def training_step(self, batch, batch_idx):
        return self.lm(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-5)


pl.Trainer(max_epochs=1, accelerator="gpu", precision="bf16-mixed").fit(Tuned(), loader)
