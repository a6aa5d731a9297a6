# about: Nothing is known of the model, but it is called one and next tokens are predicted.
import transformers
from policy import build


def log_probabilities(logits, input_ids):
    shifted = logits[:, :-1, :]
    logps = shifted.log_softmax(dim=-1)  # expect: MEM204
    return logps.gather(2, input_ids[:, 1:].unsqueeze(2)).squeeze(2)


tokenizer = transformers.AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = build()
for batch in loader:
    values = model(batch["input_ids"])
    loss = -log_probabilities(values[0], batch["input_ids"]).mean()
    loss.backward()
