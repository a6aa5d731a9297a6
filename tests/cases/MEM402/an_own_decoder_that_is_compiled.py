import tiktoken
import torch
from torch import nn

tokens = tiktoken.get_encoding("gpt2")


class Storyteller(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(tokens.n_vocab, width)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 8), 6)
        self.unembed = nn.Linear(width, tokens.n_vocab)

    def forward(self, ids):
        return self.unembed(self.body(self.embed(ids)))


def train(steps):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    teller = torch.compile(Storyteller(width=384).to(device))
    optimizer = torch.optim.Adam(teller.parameters())
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        ids = draw(step).to(device)
        logits = teller(ids[:, :-1])  # expect: MEM402
        loss = criterion(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(10_000)
