import torch
from transformers import AutoModelForCausalLM

STEPS = {}


def listed(step):
    STEPS[step.__name__] = step
    return step


network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
network.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
network.train()
adam = torch.optim.AdamW(network.parameters())


@listed
def learn(batch):
    network(**batch).loss.backward()
    adam.step()
    adam.zero_grad()


for batch in loader:
    learn(batch)
