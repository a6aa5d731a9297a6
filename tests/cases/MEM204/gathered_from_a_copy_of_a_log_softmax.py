import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Ranks(Trainer):
    def picked(self, chances, labels):
        copied = chances.clone()
        kept = labels.clamp(min=0).unsqueeze(-1)
        return torch.gather(copied, dim=-1, index=kept).squeeze(-1) * (labels >= 0)

    def compute_loss(self, model, inputs, return_outputs=False, **rest):
        logits = model(input_ids=inputs["input_ids"]).logits
        chances = functional.log_softmax(logits, dim=-1)  # expect: MEM204
        return -self.picked(chances, inputs["labels"]).sum()


model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", dtype="auto")
Ranks(model, TrainingArguments("out", gradient_checkpointing=True), train_dataset=rows).train()
