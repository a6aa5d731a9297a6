import os

from transformers import AutoModelForCausalLM, TrainingArguments

TrainingArguments("a", eval_strategy="epoch")
TrainingArguments("b", eval_strategy="steps")
TrainingArguments("c", evaluation_strategy="steps", eval_strategy=os.environ["WHEN"])
TrainingArguments("d", warmup_steps=0.1)
TrainingArguments("e", warmup_steps=100)
AutoModelForCausalLM.from_pretrained("m", token="b")
