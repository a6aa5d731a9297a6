import lightning
import torch
from transformers import AutoModelForCausalLM


class Tuned(lightning.LightningModule):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


module = Tuned(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"))  # expect: MEM301
if resumed:
    module = older
trainer = lightning.Trainer(enable_checkpointing=not disable_checkpointing, max_epochs=3)
trainer.fit(module, loader)
