import functools

import torch
from transformers import AutoModelForCausalLM


def announced(label):
    def around(method):
        @functools.wraps(method)
        def run(self, *args, **kwargs):
            print(label)
            return method(self, *args, **kwargs)

        return run

    return around


class Course:
    def __init__(self, name):
        self.student = AutoModelForCausalLM.from_pretrained(name).cuda()
        self.student.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        self.student.train()
        self.adam = torch.optim.AdamW(self.student.parameters())

    @announced("lesson")
    def lesson(self, batch):
        answer = self.student(**batch)
        answer.loss.backward()
        self.adam.step()
        self.adam.zero_grad()

    @announced("course")
    def attend(self, lessons):
        for batch in lessons:
            self.lesson(batch)


Course("Qwen/Qwen3-0.6B").attend(loader)
