import torch

with torch.profiler.profile(record_shapes=True, profile_memory=True):  # expect: MEM706
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
