import torch
from transformers import AutoModelForCausalLM

network = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
network.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
network.train()
adam = torch.optim.AdamW(network.parameters())


def safely(function):
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            print(error)
            raise

    return call


@safely
def learn(rows):
    for row in rows:
        answer = network(input_ids=row, labels=row)
        answer.loss.backward()
        adam.step()
        adam.zero_grad()


learn(loader)
