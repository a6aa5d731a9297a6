# about: A metric that needs more than the argmax: advice.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out"), compute_metrics=perplexity).evaluate(test)  # expect: MEM205
