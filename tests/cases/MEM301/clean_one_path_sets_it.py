# about: One path sets it.
import sys
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

options = {}
if len(sys.argv) > 1:
    options["gradient_checkpointing"] = True
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out", **options)).train()
