# about: A subclass of the trainer calls the helper in its loss.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def logprobs_of(logits, input_ids):
    values = torch.log_softmax(logits[:, :-1], dim=-1)  # expect: MEM204
    return values.gather(-1, input_ids[:, 1:, None]).squeeze(-1)


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return -logprobs_of(model(inputs["input_ids"]).logits, inputs["input_ids"]).mean()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Weighted(model, TrainingArguments("out"), train_dataset=rows).train()
