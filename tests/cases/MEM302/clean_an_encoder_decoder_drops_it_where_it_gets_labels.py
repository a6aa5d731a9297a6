# about: BART's forward sets `use_cache` to False where labels are given.
import torch
from transformers import AutoProcessor, BartForConditionalGeneration, Florence2ForConditionalGeneration

writer = BartForConditionalGeneration.from_pretrained("facebook/bart-base").to("cuda")
seer = Florence2ForConditionalGeneration.from_pretrained("microsoft/Florence-2-base").to("cuda")
for model in (writer, seer):
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        outputs = model(**batch, labels=batch["input_ids"])
        outputs.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
