"""DeepSpeed wraps the model itself: DDP never gets these options."""

from accelerate import Accelerator, DistributedDataParallelKwargs


def accelerator_for(plugin):
    handlers = []
    if plugin is not None and plugin.deepspeed_config:
        handlers.append(DistributedDataParallelKwargs(find_unused_parameters=True))
    return Accelerator(deepspeed_plugin=plugin, kwargs_handlers=handlers)


def train(model, optimizer, loader, plugin):
    accelerator = accelerator_for(plugin)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
