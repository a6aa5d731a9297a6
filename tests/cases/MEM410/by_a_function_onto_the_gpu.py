import os

import torch
from transformers import AutoModelForCausalLM

rank = int(os.environ["LOCAL_RANK"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters())


def resume(path):
    state = torch.load(path, map_location=lambda storage, loc: storage.cuda(rank))  # expect: MEM410
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]


def onto_mine(storage, place):
    return storage.cuda()


model.load_state_dict(torch.load("a.pt", map_location=lambda s, _: s.cuda()))  # expect: MEM410
places = {"cuda:0": f"cuda:{rank}"}
model.load_state_dict(torch.load("b.pt", map_location=places))  # expect: MEM410
model.load_state_dict(torch.load("c.pt", map_location=lambda storage, loc: storage))
model.load_state_dict(torch.load("d.pt", map_location={"cuda:0": "cpu"}))
model.load_state_dict(torch.load("e.pt", map_location=onto_mine))
first = resume("last.pt")
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
