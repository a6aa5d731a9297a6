try:
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
except ImportError:
    AutoModelForCausalLM = object
    Trainer = TrainingArguments = None
from memlint_runtime import fuse_causal_lm_loss


def load(name):
    return AutoModelForCausalLM.from_pretrained(name)


model = load("Qwen/Qwen3-0.6B")
fuse_causal_lm_loss(model)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows).train()
