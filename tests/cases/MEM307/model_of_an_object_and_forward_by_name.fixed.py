from transformers import T5ForConditionalGeneration


def train(parts, loader):
    for batch in loader:
        outputs = parts.model(**batch)
        outputs.loss.backward()
        del outputs


model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
for batch in loader:
    output = model.forward(batch["input_ids"], labels=batch["labels"])
    output.loss.backward()
    del output
