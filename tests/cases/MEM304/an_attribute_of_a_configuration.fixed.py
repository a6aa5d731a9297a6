from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

plan = AutoConfig.from_pretrained("Qwen/Qwen3-0.6B")
plan._attn_implementation = "sdpa"
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", config=plan)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
other.config._attn_implementation = "sdpa"
Trainer(other, TrainingArguments("out"), train_dataset=rows).train()
