import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B").cuda()
teacher.requires_grad_(False)


def ranked(logits, places):
    parts = []
    for place in range(places.shape[1]):
        parts.append(logits[:, place:, :].clone())
    return torch.cat(parts, dim=1)


class Rows:
    def join(self, given):
        kept = []
        for row in given:
            kept.append(row)
        return torch.stack(kept)


@torch.no_grad()
def wanted(ids):
    logits = teacher(ids).logits
    return ranked(logits, ids), Rows().join(teacher(ids).logits.softmax(-1))


model.eval()
for ids in loader:
    first, second = wanted(ids.cuda())
    print(first.mean().item(), second.mean().item())
