# about: The state of a schedule is some numbers.
import torch
from transformers import get_cosine_schedule_with_warmup

decay = get_cosine_schedule_with_warmup(optimizer, 10, 100)
decay.load_state_dict(torch.load("decay.pt"))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
