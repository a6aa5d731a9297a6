# target: transformers=4.50,trl=0.16
import torch
from transformers import AutoModelForCausalLM, OPTForCausalLM

small = AutoModelForCausalLM.from_pretrained("openai-community/gpt2")
other = OPTForCausalLM.from_pretrained("facebook/opt-1.3b")
with torch.no_grad():
    for ids in loader:
        print(small(input_ids=ids).logits[:, -1], other(input_ids=ids).logits[:, -1])
