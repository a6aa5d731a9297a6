import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

NAME = "Qwen/Qwen3-0.6B"


def plain(loader):
    model = AutoModelForCausalLM.from_pretrained(NAME).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    for batch in loader:
        outputs = model(**batch)  # expect: MEM201
        loss = outputs[0]
        if torch.cuda.device_count() > 1:
            loss = loss.mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def accelerated(loader):
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained(NAME)
    optimizer = torch.optim.SGD(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        loss = model(**batch)[0] / 4  # expect: MEM201
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def scaled(loader):
    model = AutoModelForCausalLM.from_pretrained(NAME).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler()
    for batch in loader:
        with torch.autocast("cuda", torch.float16):
            loss, *_ = model(**batch)  # expect: MEM201
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item())
