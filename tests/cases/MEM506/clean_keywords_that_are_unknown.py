from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(model, **load_options())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
