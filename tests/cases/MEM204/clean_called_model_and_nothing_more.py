# about: What is called model may compute anything: nothing uses it as a module.
import transformers
from policy import build


def log_probabilities(logits, input_ids):
    logps = logits[:, :-1, :].log_softmax(dim=-1)
    return logps.gather(2, input_ids[:, 1:].unsqueeze(2)).squeeze(2)


tokenizer = transformers.AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = build()
for batch in loader:
    values = model(batch["input_ids"])
    loss = -log_probabilities(values[0], batch["input_ids"]).mean()
    loss.backward()
