import torch
from transformers import AutoModelForCausalLM
from vllm import LLM

device = "cuda" if torch.cuda.is_available() else "cpu"
policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
policy = policy.to(device)
llm = LLM("Qwen/Qwen3-1.7B", gpu_memory_utilization=0.3, device="cuda:1")
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for prompts in loader:
    completions = llm.generate(prompts)
    loss = score(policy(**tokenize(completions)).logits)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
