# about: The trainer calls its loss in every step, beside the evaluation that is written here.
from unittest.mock import patch

import torch
from transformers import Trainer


class Scorer(Trainer):
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        with torch.no_grad(), patch("torch.cuda.synchronize"):
            return self.compute_loss(model, inputs), None, None

    def compute_loss(self, model, inputs, return_outputs=False, **rest):
        answer = inputs["answer_ids"]
        logits = model(inputs["input_ids"], num_logits_to_keep=answer.size(1) + 1).logits[:, :-1]
        scores = []
        for row, tokens in zip(logits, answer):
            logprobs = row.log_softmax(dim=-1)  # expect: MEM204
            scores.append(logprobs.gather(1, tokens.unsqueeze(1)).squeeze(1))
        return -(torch.stack(scores) * inputs["advantages"]).mean()
