from elsewhere import finish
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def epoch():
    losses, others = [], []
    for batch in loader:
        loss = model(**batch).loss
        loss.backward(retain_graph=True)
        losses.append(loss)
        others.append(loss)
    finish(others, optimizer)
    return losses


sum(epoch()).backward()
