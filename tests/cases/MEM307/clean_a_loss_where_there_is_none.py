import torch
from transformers import AutoModelForCausalLM

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(net.parameters())


def loss_of(batch):
    answer = net(input_ids=batch["ids"], labels=batch["ids"], use_cache=False)
    return answer.loss if hasattr(answer, "loss") else answer


for batch in batches:
    loss = loss_of(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
