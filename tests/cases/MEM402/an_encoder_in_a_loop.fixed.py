import torch
from torch import nn
from transformers import AutoModel


class Judge(nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        self.reader = AutoModel.from_pretrained(checkpoint)
        self.out = nn.Linear(768, 1)

    def forward(self, ids, mask):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            read = self.reader(input_ids=ids, attention_mask=mask)
            return self.out(read.last_hidden_state[:, 0])


judge = Judge("distilbert-base-uncased").to("cuda")
weights = judge.parameters() if whole else judge.out.parameters()
optimizer = torch.optim.AdamW(weights, lr=1e-5)
for better, worse in loader:
    loss = -nn.functional.logsigmoid(judge(*better) - judge(*worse)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
