# about: of torch, of a package, by a function, chosen by a command line
import argparse

import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="nvfuser")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
torch.compile(model, backend="inductor")
torch.compile(model, backend="openxla")
torch.compile(model, backend=lambda graph, inputs: graph.forward)
torch.compile(model, backend=parser.parse_args().backend)
try:
    torch.compile(model, backend="nvfuser")
except Exception:
    pass
