import torch
from transformers import AutoModelForCausalLM

student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
adam = torch.optim.AdamW(student.parameters())
marks = []


def noted(lesson):
    def run(*args, **kwargs):
        mark = lesson(*args, **kwargs)
        marks.append(mark.detach())
        return mark

    return run


@noted
def lesson(batch):
    mark = student(**batch).loss
    mark.backward()
    adam.step()
    adam.zero_grad()
    return mark


for batch in loader:
    lesson(batch)
