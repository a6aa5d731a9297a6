# about: Nothing runs backward here: ``Trainer`` is a word of the text alone.
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DDP(model)
print(evaluate(model, "Trainer"))
