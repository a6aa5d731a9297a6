# about: Reduced already.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

trainer = Trainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    TrainingArguments("out", eval_strategy="steps"),
    compute_metrics=metric,
    preprocess_logits_for_metrics=argmax,
)
