import torch
from transformers import AutoModelForSequenceClassification

judge = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-0.6B", num_labels=1)
judge.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
judge.train()
judge.to("cuda")
adam = torch.optim.AdamW(judge.parameters(), lr=1e-5)
for better, worse in loader:
    margin = judge(**better).logits - judge(**worse).logits
    torch.nn.functional.logsigmoid(margin).mean().neg().backward()
    adam.step()
    adam.zero_grad()
