import torch

torch.autograd.set_detect_anomaly(True)  # expect: MEM706
try:
    import wandb
except Exception:
    wandb = None
for batch in loader:
    loss = model(**batch).loss
    try:
        loss.backward()
    except torch.cuda.OutOfMemoryError:
        continue
    except Exception:
        print("it fails")
        raise
    optimizer.step()
