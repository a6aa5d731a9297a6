# about: The old name beside the new one, which says the same, something else, or nothing.
import os

from transformers import AutoModelForCausalLM, TrainingArguments

TrainingArguments("a", evaluation_strategy="steps", eval_strategy="epoch")  # expect: MEM901
TrainingArguments("b", evaluation_strategy="steps", eval_strategy=None)  # expect: MEM901
TrainingArguments("c", evaluation_strategy="steps", eval_strategy=os.environ["WHEN"])  # expect: MEM901
TrainingArguments("d", warmup_ratio=0.1, warmup_steps=0)  # expect: MEM901
TrainingArguments("e", warmup_ratio=0.1, warmup_steps=100)  # expect: MEM901
AutoModelForCausalLM.from_pretrained("m", use_auth_token="a", token="b")  # expect: MEM901
