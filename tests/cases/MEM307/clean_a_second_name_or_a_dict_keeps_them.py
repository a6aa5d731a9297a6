from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
history, shown = {}, [None]
for batch in loader:
    outputs = model(**batch)
    last = outputs
    outputs.loss.backward()
    optimizer.step()
print(last.logits.argmax(-1))
for batch in loader:
    outputs = model(**batch)
    history["last"] = outputs
    outputs.loss.backward()
    optimizer.step()
for batch in loader:
    outputs = model(**batch)
    shown[0] = outputs.logits.detach()
    outputs.loss.backward()
    optimizer.step()
for batch in loader:
    outputs = model(**batch)
    pair = [outputs, len(batch)]
    outputs.loss.backward()
    optimizer.step()
for batch in loader:
    outputs = model(**batch)
    history.update(last=outputs)
    outputs.loss.backward()
    optimizer.step()
for batch in loader:
    outputs = model(**batch)
    model.last = outputs
    outputs.loss.backward()
    optimizer.step()
