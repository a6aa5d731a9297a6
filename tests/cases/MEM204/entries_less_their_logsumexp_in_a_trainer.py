import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        gains = inputs.pop("gains")
        logits = model(**inputs).logits
        entry = torch.take_along_dim(logits[:, :-1], inputs["input_ids"][:, 1:, None], dim=-1)[..., 0]
        return -((entry - torch.logsumexp(logits[:, :-1], -1)) * gains).mean()  # expect: MEM204


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="auto")
Weighted(model, TrainingArguments("out", bf16=True), train_dataset=rows).train()
