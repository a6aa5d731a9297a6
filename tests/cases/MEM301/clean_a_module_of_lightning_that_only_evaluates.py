import lightning.pytorch as pl
from transformers import AutoModelForCausalLM


class Measured(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.lm = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def test_step(self, batch, batch_idx):
        self.log("loss", self.lm(**batch).loss)


pl.Trainer().test(Measured(), loader)
