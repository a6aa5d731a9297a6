import sys

from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

plan = AutoConfig.from_pretrained("Qwen/Qwen3-0.6B", attn_implementation="eager")
shown = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", config=plan)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
if "--debug" in sys.argv:
    model.set_attn_implementation("eager")
shown.set_attn_implementation("eager")
print(shown.generate(ids))
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
