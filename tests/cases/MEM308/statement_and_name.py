from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    model(**batch)  # expect: MEM308
    first = model(input_ids=batch["input_ids"])  # expect: MEM308
    outputs = model(**batch)
    accelerator.backward(outputs.loss)
    optimizer.step()
    optimizer.zero_grad()


def step(batch):
    model(**batch)  # expect: MEM308
    accelerator.backward(model(**batch).loss)


for batch in loader:
    for part in halves(batch):
        step(part)
    optimizer.step()
