import lightning as L
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM


class Imitation(L.LightningModule):
    def configure_model(self):
        self.pupil = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        self.pupil.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        self.pupil.train()
        self.master = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")

    def training_step(self, batch, batch_idx):
        with torch.no_grad():
            wanted = self.master(**batch).logits.softmax(-1)
        return F.kl_div(self.pupil(**batch).logits.log_softmax(-1), wanted, reduction="batchmean")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.pupil.parameters(), lr=1e-5)


L.Trainer(precision="bf16-true").fit(Imitation(), loader)
