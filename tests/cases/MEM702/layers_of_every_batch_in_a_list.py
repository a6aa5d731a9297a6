import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2", dtype=torch.bfloat16).cuda().eval()


def features(batches, layers):
    picked = []
    for batch in batches:
        with torch.no_grad():
            out = model(batch, output_hidden_states=True)
        for layer in layers:
            picked.append(out.hidden_states[layer])  # expect: MEM702
    return picked
