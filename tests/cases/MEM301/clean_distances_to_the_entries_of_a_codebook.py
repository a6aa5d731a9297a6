# about: Rows of a codebook are taken for what was nearest to them: it embeds no words.
import torch
import torch.nn.functional as F
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, entries=8192, width=256):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(80, width, 4), nn.GELU(), nn.Conv1d(width, width, 4))
        self.decoder = nn.Sequential(nn.ConvTranspose1d(width, 80, 7), nn.GELU())
        self.codebook = nn.Embedding(entries, width)

    def forward(self, sound):
        hidden = self.encoder(sound).transpose(1, 2)
        flat = hidden.reshape(-1, 256)
        nearest = (flat @ self.codebook.weight.t()).argmax(-1)
        rounded = self.codebook(nearest).view_as(hidden)
        made = self.decoder((hidden + (rounded - hidden).detach()).transpose(1, 2))
        return F.mse_loss(made, sound) + F.mse_loss(hidden, rounded.detach())


model = Quantizer().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for sound in loader:
    model(sound.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
