import torch

torch.autograd.set_detect_anomaly(args.debug)
torch.autograd.set_detect_anomaly(False)
if args.debug:
    torch.autograd.set_detect_anomaly(True)
    torch.cuda.memory._record_memory_history()
for batch in loader:
    with torch.autograd.set_detect_anomaly(False):
        model(**batch).loss.backward()
