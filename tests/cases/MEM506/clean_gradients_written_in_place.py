# about: The script adds to the gradients itself.
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DDP(model)
for batch in loader:
    model(**batch).loss.backward()
    for parameter in model.parameters():
        parameter.grad += noise
    optimizer.step()
