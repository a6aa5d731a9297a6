# about: The engine tries the result; nothing trains beside it.
import torch
from transformers import AutoModelForCausalLM
from vllm import LLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for batch in loader:
    policy(**batch).loss.backward()
    optimizer.step()
llm = LLM("out", gpu_memory_utilization=0.9)
print(llm.generate(prompts))
