# about: Indexed by position and token.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids in loader:
    logits = model(ids[None]).logits[0]
    shifted = logits[:-1]
    tokens = ids[1:]
    logprobs = F.log_softmax(shifted, dim=-1)[torch.arange(len(tokens)), tokens]  # expect: MEM204
    (-logprobs.mean()).backward()
