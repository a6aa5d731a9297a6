# about: vLLM takes 0.9 of the GPU unless told otherwise.
import torch
from transformers import AutoModelForCausalLM
from vllm import LLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
llm = LLM("Qwen/Qwen3-1.7B")  # expect: MEM603
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for prompts in loader:
    completions = llm.generate(prompts)
    loss = score(policy(**tokenize(completions)).logits)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
