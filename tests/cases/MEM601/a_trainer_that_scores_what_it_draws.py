# about: The positions that the model is told to keep say that its logits are over words.
from unittest.mock import patch

import torch
from transformers import GenerationConfig, Trainer


class GroupTrainer(Trainer):
    def __init__(self, *given, group_size=8, **options):
        super().__init__(*given, **options)
        self.drawing = GenerationConfig(do_sample=True, num_return_sequences=group_size)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        with torch.no_grad(), patch("torch.cuda.synchronize"):
            return self.compute_loss(model, inputs), None, None

    def compute_loss(self, model, inputs, return_outputs=False, **rest):
        start = inputs["input_ids"].size(1)
        rows = model.generate(**inputs, generation_config=self.drawing)
        drawn = rows[:, start:]
        kept = drawn.size(1)
        logits = model(rows, logits_to_keep=kept + 1).logits[:, :-1]  # expect: MEM601
        logprobs = logits.log_softmax(-1).gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
        return -(logprobs.sum(-1) * self.judge(drawn)).mean()
