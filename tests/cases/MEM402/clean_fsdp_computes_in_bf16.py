# about: Sharded layers are gathered, and compute, in the dtype of the policy.
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy as Policy
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32).to("cuda")
for layer in (*model.model.layers, model):
    fully_shard(layer, mp_policy=Policy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
