import torch
from transformers import AutoModelForCausalLM

writer = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16).to("cuda")
writer.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
optimizer = torch.optim.AdamW(writer.parameters(), lr=1e-5)
for epoch in range(2):
    writer.train()
    for batch in loader:
        writer(**batch, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    writer.eval()
    for prompt in prompts:
        print(writer.generate(**prompt, max_new_tokens=64))
