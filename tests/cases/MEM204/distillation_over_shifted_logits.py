import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
for batch in loader:
    student = F.log_softmax(model(**batch).logits[:, :-1], dim=-1)  # expect: MEM204
    F.kl_div(student, F.softmax(teacher(**batch).logits[:, :-1], dim=-1)).backward()
