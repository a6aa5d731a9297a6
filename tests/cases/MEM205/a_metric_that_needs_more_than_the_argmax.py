# about: A metric that needs more than the argmax: advice.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from metrics import perplexity

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = Trainer(model, TrainingArguments("out"), compute_metrics=perplexity)  # expect: MEM205
print(trainer.evaluate(test))
