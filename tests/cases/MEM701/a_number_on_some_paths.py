# about: A number has no detach().
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def train_step(batch):
    loss = model(**batch).loss
    if loss.isnan():
        return 0.0
    loss.backward()
    return loss


total = 0.0
for batch in loader:
    total += train_step(batch)  # expect: MEM701
    optimizer.step()
    optimizer.zero_grad()
print(total)
