# about: Each gradient is freed as soon as it is there: the buckets are the only copy.
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DDP(model)
steppers = {weight: AdamW([weight]) for weight in model.parameters()}


def update(weight):
    steppers[weight].step()
    steppers[weight].zero_grad(set_to_none=True)


for weight in model.parameters():
    weight.register_post_accumulate_grad_hook(update)
for batch in loader:
    model(**batch).loss.backward()
