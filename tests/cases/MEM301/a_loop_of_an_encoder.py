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


net = BertForMaskedLM.from_pretrained("bert-base-uncased").to("cuda")  # expect: MEM301
net = Coach().work(net, batches)
