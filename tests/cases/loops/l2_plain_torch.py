# about: Plain torch, a loss by hand, losses kept, debugging left on.
import torch
import torch.nn as nn
from transformers import AutoModelForCausalLM

torch.autograd.set_detect_anomaly(True)  # planted: MEM706
device = torch.device("cuda")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", torch_dtype=torch.bfloat16)
model.to(device)
state = torch.load("checkpoint.pt")  # planted: MEM410
model.load_state_dict(state["model"])
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
criterion = nn.CrossEntropyLoss(ignore_index=-100)
losses = []
model.train()
for epoch in range(2):
    for batch in loader:
        ids = batch["input_ids"].to(device)
        outputs = model(  # planted: MEM307
            ids,
            output_hidden_states=True,  # planted: MEM306
            output_attentions=True,  # planted: MEM306
        )
        logits = outputs.logits
        logits = logits.float()
        shift_logits = logits[:, :-1].contiguous()
        shift_labels = ids[:, 1:].contiguous()
        loss = criterion(  # planted: MEM204
            shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1)
        )
        loss.backward(retain_graph=True)  # planted: MEM704
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)  # planted: MEM702
print(torch.stack(losses).mean())
