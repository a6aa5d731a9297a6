# about: What only the evaluation computes keeps nothing for a backward pass.
import torch
from transformers import Trainer


class Measured(Trainer):
    def token_scores(self, model, inputs):
        answer = inputs["answer_ids"]
        logits = model(inputs["input_ids"], logits_to_keep=answer.size(1) + 1).logits[:, :-1]
        return logits.log_softmax(-1).gather(-1, answer.unsqueeze(-1)).squeeze(-1)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        with torch.no_grad():
            return -self.token_scores(model, inputs).mean(), None, None
