class DistributedDataParallel:
    def __init__(self, model):
        self.module = model


model = DistributedDataParallel(model)
for batch in loader:
    model(batch).loss.backward()
    optimizer.step()
