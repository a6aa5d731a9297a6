# about: The teacher keeps no activations, and the student is of the script's own.
import torch
from student import Student
from transformers import AutoModelForCausalLM

teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").cuda()
student = Student().cuda()
optimizer = torch.optim.AdamW(student.parameters())
for ids in loader:
    with torch.no_grad():
        target = teacher(ids, use_cache=False).logits
    loss = distance(student(ids), target)
    loss.backward()
    optimizer.step()
