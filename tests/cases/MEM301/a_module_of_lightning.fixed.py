import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM


class Tuned(pl.LightningModule):
    def __init__(self, name="Qwen/Qwen3-0.6B"):
        super().__init__()
        self.lm = AutoModelForCausalLM.from_pretrained(name)
        self.lm.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        self.lm.train()

    def forward(self, **batch):
        return self.lm(**batch)

    def training_step(self, batch, batch_idx):
        out = self(**batch)
        self.log("loss", out.loss)
        return out.loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-5)


trainer = pl.Trainer(max_epochs=1, accelerator="gpu", precision="bf16-mixed")
trainer.fit(Tuned(), DataLoader(rows, batch_size=4))
