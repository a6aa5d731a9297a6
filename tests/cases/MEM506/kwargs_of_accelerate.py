from accelerate import Accelerator, DistributedDataParallelKwargs

kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)  # expect: MEM506
accelerator = Accelerator(kwargs_handlers=[kwargs])
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()
