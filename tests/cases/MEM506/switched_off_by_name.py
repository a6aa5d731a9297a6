import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = torch.nn.parallel.DistributedDataParallel(
    model,
    device_ids=[rank],
    gradient_as_bucket_view=False,  # expect: MEM506
)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
