# about: What the groups leave out is another optimizer's.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
model.train()
vectors = [p for _, p in model.named_parameters() if p.dim() < 2]
tables = [p for name, p in model.named_parameters() if "embed" in name]
optimizer = torch.optim.AdamW([{"params": vectors}, {"params": tables, "lr": 1e-4}])
matrices = Muon(the_rest(model))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
