import torch
from transformers import AutoModelForCausalLM
from vllm import LLM

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
llm = LLM("Qwen/Qwen3-1.7B", enable_sleep_mode=True)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for prompts in loader:
    llm.wake_up()
    completions = llm.generate(prompts)
    llm.sleep()
    loss = score(policy(**tokenize(completions)).logits)
    loss.backward()
    optimizer.step()
