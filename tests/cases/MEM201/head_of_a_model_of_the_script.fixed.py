import torch
from torch import nn
from torch.nn import functional as F
from memlint_runtime.losses import head_logits


class Writer(nn.Module):
    def __init__(self, words=50_304, width=1024, depth=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 16, batch_first=True) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, ids, targets=None):
        hidden = self.table(ids)
        for layer in self.layers:
            hidden = torch.utils.checkpoint.checkpoint(layer, hidden, use_reentrant=False)
        logits = head_logits(self.lm_head, self.norm(hidden))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    @torch.no_grad()
    def sample(self, ids):
        logits, _ = self(ids)
        logits = logits[:, -1, :]
        kept, _ = torch.topk(logits, 50)
        logits[logits < kept[:, [-1]]] = -float("inf")
        return torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)


model = Writer().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for ids, targets in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        _, loss = model(ids, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
