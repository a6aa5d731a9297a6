from transformers import TrainingArguments

options = dict(evaluation_strategy="steps", output_dir="a")
first = TrainingArguments(**options)
given = {"output_dir": "b"}
given["evaluation_strategy"] = "no"
second = TrainingArguments(**given)
third = TrainingArguments("c")
third.eval_strategy = third.extra = "steps"
fourth = TrainingArguments("d")
fourth.eval_strategy = "epoch"
fifth = {"output_dir": "e", "no_cuda": False}
TrainingArguments(**fifth)
print(given.get("evaluation_strategy"), fifth["no_cuda"])
sixth = {"output_dir": "f"}
TrainingArguments(**sixth)
