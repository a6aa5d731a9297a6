import torch
from transformers import AutoModelForCausalLM

student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
adam = torch.optim.AdamW(student.parameters())


class Lesson:
    def __init__(self):
        self.marks = []
        self.total = 0

    def learn(self, parts):
        self.marks, self.total = [], 0
        for part in parts:
            mark = student(**part).loss
            mark.backward()
            self.note(mark)
        adam.step()
        adam.zero_grad()

    def note(self, mark):
        self.marks.append(mark)
        self.total += mark


lesson = Lesson()
for parts in loader:
    lesson.learn(parts)
    print(lesson.total, max(float(mark) for mark in lesson.marks))
