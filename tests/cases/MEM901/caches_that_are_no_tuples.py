# about: indexed, gone through in a loop and a comprehension, in a helper
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)


def repeated(cache, times):
    copies = []
    for keys, values in cache:  # expect: MEM901
        copies.append((keys.repeat(times, 1, 1, 1), values.repeat(times, 1, 1, 1)))
    return copies


made = model(prompt, use_cache=True).past_key_values
length = made[0][0].size(2)  # expect: MEM901
many = repeated(made, 8)
out = model(answers, past_key_values=tuple((k[:1], v[:1]) for k, v in made))  # expect: MEM901
print(made.to_legacy_cache()[0])  # expect: MEM901
