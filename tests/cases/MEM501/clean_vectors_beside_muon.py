# about: Another optimizer takes the matrices.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.ndim != 2], lr=1e-4)
matrices = Muon([p for p in model.parameters() if p.ndim == 2], lr=1e-3)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
