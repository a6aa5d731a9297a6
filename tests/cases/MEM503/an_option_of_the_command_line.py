# about: Whoever starts it may ask for it; by default gradients stay as zeros.
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--free_gradients", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(4096, 4096).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for rows, targets in loader:
    torch.nn.functional.mse_loss(model(rows), targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=args.free_gradients)  # expect: MEM503
