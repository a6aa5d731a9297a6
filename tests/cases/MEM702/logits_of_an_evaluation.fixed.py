import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
model.eval()
all_logits, all_hidden, all_labels = [], [], []
with torch.no_grad():
    for batch in loader:
        outputs = model(**batch, output_hidden_states=True)
        all_logits.append(outputs.logits.cpu())
        all_hidden.append(outputs.hidden_states[-1].cpu())
        all_labels.append(batch["labels"])
print(torch.cat(all_logits).shape)
