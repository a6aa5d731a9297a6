import torch
from transformers import WhisperForConditionalGeneration


def one_epoch(model, loader, optimizer):
    for batch in loader:
        out = model(input_features=batch["features"].cuda(), labels=batch["labels"].cuda(), use_cache=False)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()


whisper = WhisperForConditionalGeneration.from_pretrained("openai/whisper-small").cuda()
one_epoch(whisper, loader, torch.optim.AdamW(whisper.parameters(), lr=1e-5))
