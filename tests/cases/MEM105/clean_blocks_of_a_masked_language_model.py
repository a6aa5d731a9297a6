# about: Blocks of a masked language model.
from transformers import AutoModelForMaskedLM, Trainer, TrainingArguments


def group_texts(examples):
    return {key: sum(examples[key], []) for key in examples}


model = AutoModelForMaskedLM.from_pretrained("bert")
Trainer(model, TrainingArguments("out"), train_dataset=data.map(group_texts)).train()
