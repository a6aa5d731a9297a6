import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from transformers import AutoModelForCausalLM


class Tuned(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.lm = AutoModelForCausalLM.from_pretrained("gpt2")

    def training_step(self, batch, batch_idx):
        return self.lm(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-5)


strategy = DDPStrategy(find_unused_parameters=False)  # expect: MEM506
L.Trainer(devices=4, strategy=strategy).fit(Tuned(), loader)
