# about: The model is a parameter of a function that other files call.
from transformers import AutoModelForCausalLM


def load():
    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def fit(lm, loader):
    for batch in loader:
        outputs = lm(**batch)  # expect: MEM307
        outputs.loss.backward()
