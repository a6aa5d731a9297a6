# about: Moved to host memory now and then.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

trainer = Trainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    TrainingArguments("out", eval_strategy="steps", eval_accumulation_steps=4),
    compute_metrics=metric,
)
