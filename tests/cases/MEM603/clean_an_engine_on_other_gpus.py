import torch
from transformers import AutoModelForCausalLM
from vllm import LLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
llm = LLM("Qwen/Qwen3-1.7B", device="cuda:1", gpu_memory_utilization=0.9)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for prompts in loader:
    completions = llm.generate(prompts)
    loss = score(policy(**tokenize(completions)).logits)
    loss.backward()
    optimizer.step()
