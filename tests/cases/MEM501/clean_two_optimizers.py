# about: Which of them holds the large model's states is not known.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype=torch.float32)
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3)
other = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    other.step()
