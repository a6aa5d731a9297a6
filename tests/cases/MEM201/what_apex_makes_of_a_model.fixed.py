import torch
import transformers
from memlint_runtime import fuse_causal_lm_loss
from apex import amp

model = transformers.GPT2LMHeadModel.from_pretrained("gpt2").cuda()
fuse_causal_lm_loss(model, fuse_evaluation=True)
model.train()
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for ids in batches:
    outputs = model(input_ids=ids, labels=ids)
    with amp.scale_loss(outputs.loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
