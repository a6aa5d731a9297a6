# about: Where the head may be another one later, nothing is written before.
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
if len(tokenizer) > model.config.vocab_size:
    model.resize_token_embeddings(len(tokenizer))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    loss = model(**batch, use_cache=False).loss  # expect: MEM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
