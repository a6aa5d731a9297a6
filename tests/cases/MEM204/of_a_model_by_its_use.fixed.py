import torch
import transformers
from policy import build


def log_probabilities(logits, input_ids):
    shifted = logits[:, :-1, :]
    logps = shifted.log_softmax(dim=-1)
    return logps.gather(2, input_ids[:, 1:].unsqueeze(2)).squeeze(2)


tokenizer = transformers.AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
built = build()
optimizer = torch.optim.AdamW(built.parameters(), lr=1e-6)
for batch in loader:
    held = {"logits": built(batch["input_ids"])[0]}
    loss = -log_probabilities(held["logits"], batch["input_ids"]).mean()
    loss.backward()
