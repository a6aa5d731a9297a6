from transformers import AutoModelForCausalLM


class DistributedDataParallel:
    def __init__(self, model):
        self.module = model


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B").cuda()
model = DistributedDataParallel(model)
for batch in loader:
    model(batch).loss.backward()
    optimizer.step()
