# about: The statement does more: advice.
import torch
from accelerate import Accelerator

accelerator = Accelerator()
for batch in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.empty_cache(), log(batch)  # expect: MEM705
