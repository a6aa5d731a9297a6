# about: Which options are taken over is not known, or they say that activations are checkpointed.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from ours import accepted, values

options = {"seed": 3, "gradient_checkpointing": False}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
kept = {k: v for k, v in options.items() if accepted(k)}
Trainer(model, TrainingArguments("out", **kept), train_dataset=rows).train()

kept = {k: values[k] for k, v in options.items()}
Trainer(model, TrainingArguments("out", **kept), train_dataset=rows).train()

on = {"seed": 3, "gradient_checkpointing": True, "rank": 8}
kept = {k: v for k, v in on.items() if k not in ["rank"]}
Trainer(model, TrainingArguments("out", **kept), train_dataset=rows).train()
