import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
model.eval()
with torch.no_grad():
    for ids in rows:
        outputs = model(ids, logits_to_keep=1)
        following = outputs.logits[:, -1, :].argmax(-1)
        print(model(input_ids=ids, logits_to_keep=1).logits[..., -1, 0])
        logits = model(ids, attention_mask=mask, logits_to_keep=1)["logits"]
        print(logits.shape[-1], logits[..., -1, :], logits[:, -1, [yes, no]])
        print(model(ids).logits[0, -1], model(ids).logits[0][-1])  # one row is little
