import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from vllm import LLM, SamplingParams

name = "Qwen/Qwen2.5-1.5B-Instruct"
tokenizer = AutoTokenizer.from_pretrained(name)
engine = LLM(name, gpu_memory_utilization=0.3)
model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
params = SamplingParams(n=8, temperature=1.0, max_tokens=256)
for prompts in loader:
    outputs = engine.generate(prompts, params)
    texts = [out.prompt + one.text for out in outputs for one in out.outputs]
    rows = tokenizer(texts, return_tensors="pt", padding=True).input_ids.cuda()
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]  # expect: MEM601
    logps = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(logps.sum(-1) * advantages(outputs)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
