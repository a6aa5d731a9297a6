# about: A gradient that is a view cannot be detached in place, as zeroing does.
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DistributedDataParallel(model)  # expect: MEM506
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
