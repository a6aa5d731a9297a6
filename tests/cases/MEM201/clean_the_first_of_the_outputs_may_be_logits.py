import torch
from transformers import AutoModelForCausalLM

NAME = "Qwen/Qwen3-0.6B"


def timed(loader):
    model = AutoModelForCausalLM.from_pretrained(NAME).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    for batch in loader:
        outputs = model(**batch)
        outputs[0].mean().backward()
        optimizer.step()


def judged(loader):
    model = AutoModelForCausalLM.from_pretrained(NAME).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    for batch, wanted in loader:
        scores = model(**batch)[0][:, -1, 77]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted)
        loss.backward()
        print(loss.item(), scores[0].item())
        optimizer.step()
