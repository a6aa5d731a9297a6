import torch
from trl import DPOConfig, DPOTrainer


class Tutor(DPOTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        logits = model(input_ids=inputs["input_ids"]).logits
        told = logits[:, :-1].log_softmax(-1)  # expect: MEM204
        loss = -torch.gather(told, 2, inputs["input_ids"][:, 1:].unsqueeze(2)).mean()
        return (loss, logits) if return_outputs else loss


Tutor("Qwen/Qwen3-0.6B", args=DPOConfig("out"), train_dataset=rows).train()
