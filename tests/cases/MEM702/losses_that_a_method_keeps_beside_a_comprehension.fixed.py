import torch
from transformers import AutoModelForCausalLM


class Learner:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.losses = []

    def learn(self, batch):
        batch = {name: one.cuda() for name, one in batch.items()}
        loss = self.model(**batch).loss
        self.losses.append(loss.detach())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
model.train()
learner = Learner(model)
for batch in loader:
    learner.learn(batch)
print(torch.stack(learner.losses).mean().item())
