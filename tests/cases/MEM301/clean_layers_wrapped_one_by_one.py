# about: Torch recomputes each layer.
from functools import partial

import torch.distributed.algorithms._checkpoint.checkpoint_wrapper as recompute
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
wrap = partial(recompute.checkpoint_wrapper, preserve_rng_state=False)
for index, layer in enumerate(model.model.layers):
    model.model.layers[index] = wrap(layer)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
