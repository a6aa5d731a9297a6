import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.eval()
with torch.no_grad():
    for batch in loader:
        outputs = model(
            input_ids=batch["input_ids"],
            labels=batch["labels"],  # expect: MEM208
        )
        print(outputs.logits.argmax(-1), outputs["logits"].shape)
