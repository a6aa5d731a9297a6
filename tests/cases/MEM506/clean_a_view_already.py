from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(model, gradient_as_bucket_view=True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
