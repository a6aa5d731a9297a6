# about: Its names are told where it has neither; an entry that is not there is the checkpoint.
import torch

model = Model().to("cuda")
saved = torch.load("last.pt", map_location="cuda")  # expect: MEM410
state = saved.get("weights") or saved.get("model")
if state is None:
    raise KeyError(f"neither is among {list(saved.keys())}")
model.load_state_dict(state)
other = Model().to("cuda")
read = torch.load("first.pt", map_location="cuda")  # expect: MEM410
other.load_state_dict(read.get("model", read), strict=False)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    (model(batch) + other(batch)).backward()
    optimizer.step()
