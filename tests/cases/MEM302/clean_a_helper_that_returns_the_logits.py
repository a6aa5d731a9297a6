# about: Without gradients too, the outputs are gone with the expression or the function.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
frozen = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


@torch.inference_mode()
def score(scorer, batch):
    outputs = scorer(**batch)
    return torch.log_softmax(outputs.logits.float(), -1)


for batch in loader:
    target = score(frozen, batch)
    distance(model(**batch).logits, target).backward()
