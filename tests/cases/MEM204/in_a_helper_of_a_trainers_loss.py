import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Tutor(Trainer):
    def of_words(self, logits, words):
        told = logits[:, :-1].log_softmax(-1)  # expect: MEM204
        return torch.gather(told, 2, words[:, 1:].unsqueeze(2)).squeeze(2)

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        answer = model(input_ids=inputs["input_ids"])
        loss = -self.of_words(answer.logits, inputs["input_ids"]).mean()
        return (loss, answer) if return_outputs else loss


net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Tutor(net, TrainingArguments("out"), train_dataset=rows).train()
