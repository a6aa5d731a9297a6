from transformers import T5ForConditionalGeneration


def train(parts, loader):
    for batch in loader:
        outputs = parts.model(**batch)  # expect: MEM307
        outputs.loss.backward()


model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
for batch in loader:
    output = model.forward(batch["input_ids"], labels=batch["labels"])  # expect: MEM307
    output.loss.backward()
