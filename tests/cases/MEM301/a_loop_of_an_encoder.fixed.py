import torch
from transformers import BertForMaskedLM


class Coach:
    def work(self, net, batches):
        steps = torch.optim.AdamW(net.parameters())
        net.train()
        for batch in batches:
            net(**batch).loss.backward()
            steps.step()
            steps.zero_grad()
        return net


net = BertForMaskedLM.from_pretrained("bert-base-uncased").to("cuda")
net.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
net = Coach().work(net, batches)
