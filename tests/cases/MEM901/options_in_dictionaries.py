# about: Old options in dictionaries and assignments, read and written.
from transformers import TrainingArguments

options = dict(evaluation_strategy="steps", output_dir="a")  # expect: MEM901
first = TrainingArguments(**options)
given = {"output_dir": "b"}
given["evaluation_strategy"] = "no"  # expect: MEM901
second = TrainingArguments(**given)
third = TrainingArguments("c")
third.evaluation_strategy = third.extra = "steps"  # expect: MEM901
fourth = TrainingArguments("d")
fourth.evaluation_strategy = "epoch"  # expect: MEM901
fifth = {"output_dir": "e", "overwrite_output_dir": True, "no_cuda": False}  # expect: MEM901, MEM901
TrainingArguments(**fifth)
print(given.get("evaluation_strategy"), fifth["no_cuda"])
sixth = {"output_dir": "f"}
sixth["overwrite_output_dir"] = True  # expect: MEM901
TrainingArguments(**sixth)
