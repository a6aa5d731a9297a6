import torch
import transformers
from apex import amp

model = transformers.GPT2Model.from_pretrained("gpt2").cuda()
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for ids in batches:
    loss = model(input_ids=ids).last_hidden_state.pow(2).mean()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
