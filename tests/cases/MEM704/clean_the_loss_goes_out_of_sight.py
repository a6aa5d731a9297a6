from elsewhere import regularize
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
callbacks = [regularize]
for batch in loader:
    loss = model(**batch).loss
    loss.backward(retain_graph=True)
    for callback in callbacks:
        callback(loss)
    optimizer.step()
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward(retain_graph=True)
    regularize(outputs.logits)
    optimizer.step()
