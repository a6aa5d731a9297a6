# about: a method, a function with a trial's parameters, a lambda; traps: another model is given
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers import Trainer, TrainingArguments

NAME = "Qwen/Qwen2.5-1.5B"


class Search:
    def build(self):
        return AutoModelForCausalLM.from_pretrained(NAME, dtype="bfloat16")

    def go(self):
        Trainer(model_init=self.build, args=TrainingArguments("a"), train_dataset=rows).train()  # expect: MEM201


def by_trial(trial):
    if trial is not None:
        print(trial.number)
    return AutoModelForCausalLM.from_pretrained(NAME, dtype="bfloat16")


def labels():
    return AutoModelForSequenceClassification.from_pretrained(NAME)


Search().go()
Trainer(None, TrainingArguments("b"), model_init=by_trial, train_dataset=rows).train()  # expect: MEM201
short = lambda: AutoModelForCausalLM.from_pretrained(NAME)
Trainer(args=TrainingArguments("c"), model_init=short, train_dataset=rows).train()  # expect: MEM201
Trainer(args=TrainingArguments("d"), model_init=labels, train_dataset=rows).train()
Trainer(args=TrainingArguments("e"), model_init=elsewhere, train_dataset=rows).train()
head = AutoModelForSequenceClassification.from_pretrained(NAME)
Trainer(head, TrainingArguments("f"), model_init=by_trial, train_dataset=rows).train()
