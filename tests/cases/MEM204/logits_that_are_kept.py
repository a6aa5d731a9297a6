# about: What keeps them may ask what they are: they are no tensors then.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for rows in loader:
    logits = model(rows).logits.float()
    record["last"] = logits
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), rows[:, 1:].reshape(-1))  # expect: MEM204
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
