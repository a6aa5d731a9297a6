import torch
import transformers
from apex import amp

model = transformers.GPT2LMHeadModel.from_pretrained("gpt2").cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for ids in batches:
    outputs = model(input_ids=ids, labels=ids)  # expect: MEM201
    with amp.scale_loss(outputs.loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
