# about: what is written is a default, that a configuration file or a command line may change
import torch

begin = "scratch"
device = "cuda"
names = [key for key, value in globals().items() if isinstance(value, str)]
exec(open("configure.py").read())
settings = {key: globals()[key] for key in names}

if begin == "resume":
    saved = torch.load("last.pt", map_location=device)  # expect: MEM410
    model.load_state_dict(saved["model"])
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
