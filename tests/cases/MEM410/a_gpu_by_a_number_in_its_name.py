import argparse

import torch
from transformers import AutoModelForCausalLM

args = argparse.ArgumentParser().parse_args()
place = "cuda:%d" % args.gpu
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).to(place)
saved = torch.load("model.pt", map_location=place)  # expect: MEM410
model.load_state_dict(saved["model"])
for batch in loader:
    model(**batch).loss.backward()
