# about: The private attribute that models read in every pass, set before and after loading.
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

plan = AutoConfig.from_pretrained("Qwen/Qwen3-0.6B")
plan._attn_implementation = "eager"  # expect: MEM304
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", config=plan)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
other.config._attn_implementation = "eager"  # expect: MEM304
Trainer(other, TrainingArguments("out"), train_dataset=rows).train()
