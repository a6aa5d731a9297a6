import torch
from transformers import GPT2DoubleHeadsModel, OpenAIGPTDoubleHeadsModel


def load(older, settings):
    if older:
        return OpenAIGPTDoubleHeadsModel.from_pretrained(settings["name"])
    return GPT2DoubleHeadsModel.from_pretrained(settings["name"])


model = load(False, settings).cuda()
model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in batches:
    answer = model(**batch)
    loss = 2 * answer.loss + answer.mc_loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
