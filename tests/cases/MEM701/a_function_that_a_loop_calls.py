import torch
from transformers import AutoModelForCausalLM

student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
adam = torch.optim.AdamW(student.parameters())
marks = []
total = 0


def note(mark):
    global total
    total += mark  # expect: MEM701
    marks.append(mark)


for batch in loader:
    mark = student(**batch).loss
    mark.backward()
    adam.step()
    adam.zero_grad()
    note(mark)
print(total)
