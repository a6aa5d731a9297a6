# about: Evaluation that hoards.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype=torch.bfloat16).cuda()


def evaluate(model, loader):
    model.eval()
    all_logits, all_labels, hidden = [], [], []
    for batch in loader:
        batch = {key: value.cuda() for key, value in batch.items()}
        outputs = model(**batch, output_hidden_states=True)  # planted: MEM703
        all_logits.append(outputs.logits)  # planted: MEM702
        all_labels.append(batch["labels"])
        hidden.append(outputs.hidden_states[-1])  # planted: MEM702
    logits = torch.cat(all_logits)
    labels = torch.cat(all_labels)
    return (logits.argmax(-1) == labels).float().mean(), torch.cat(hidden)


print(evaluate(model, loader))
