# about: One encoder is frozen, one runs without autograd, and nobody can tell how one is stored.
import torch
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

frozen = AutoModel.from_pretrained("bert-base-uncased").to("cuda").requires_grad_(False)
read = AutoModel.from_pretrained("distilbert-base-uncased").to("cuda")
judge = AutoModelForSequenceClassification.from_pretrained("me/reviews", num_labels=2).to("cuda")
out = nn.Linear(1536, 2).to("cuda")
optimizer = torch.optim.AdamW([*judge.parameters(), *out.parameters()], lr=1e-5)
for batch in loader:
    with torch.no_grad():
        second = read(**batch).last_hidden_state[:, 0]
    first = frozen(**batch).last_hidden_state[:, 0]
    scores = out(torch.cat([first, second], dim=-1)) + judge(**batch).logits
    loss = nn.functional.cross_entropy(scores, batch["labels"])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
