# about: The load says which attention it wants; a switch turns the other one on.
import sys

from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

plan = AutoConfig.from_pretrained("Qwen/Qwen3-0.6B")
plan._attn_implementation = "eager"
model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-0.6B", config=plan, attn_implementation="sdpa"
)
if "--check" in sys.argv:
    model.config._attn_implementation = "eager"
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
