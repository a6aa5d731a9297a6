from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from transformers import AutoModelForCausalLM


def prepare(name):
    model = AutoModelForCausalLM.from_pretrained(name).to("cuda")
    return {"optimizer": AdamW(model.parameters(), lr=1e-5), "model": model, "turns": 3}


made = prepare("Qwen/Qwen3-0.6B")
model, optimizer = (made[name] for name in ["model", "optimizer"])
for batch in loader:
    logits = model(batch["input_ids"]).logits
    loss = cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    del logits
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
