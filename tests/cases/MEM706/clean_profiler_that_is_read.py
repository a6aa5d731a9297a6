import torch

with torch.profiler.profile(profile_memory=True) as profiler:
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
print(profiler.key_averages())
handler = torch.profiler.tensorboard_trace_handler("traces")
with torch.profiler.profile(on_trace_ready=handler):
    for batch in loader:
        model(**batch).loss.backward()
