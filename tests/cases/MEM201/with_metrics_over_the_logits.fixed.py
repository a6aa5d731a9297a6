from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from memlint_runtime import fuse_causal_lm_loss

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, activation_checkpointing=True)
fuse_causal_lm_loss(model)
trainer = Trainer(model=model, args=args, train_dataset=dataset, compute_metrics=accuracy)
