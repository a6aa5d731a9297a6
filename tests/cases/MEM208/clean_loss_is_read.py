from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(batch["input_ids"], labels=batch["labels"])
    print(outputs.logits.shape)
    loss = outputs.loss if weighted is None else weighted(outputs)
    loss.backward()
for batch in loader:
    first = model(batch["input_ids"], labels=batch["labels"])
    print(first.logits.shape, first[0])
    third = model(batch["input_ids"], labels=batch["labels"])
    print(third.logits.shape, third["loss"])
    loss, logits = model(batch["input_ids"], labels=batch["labels"])[:2]
