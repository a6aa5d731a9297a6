import argparse

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fast", type=int, default=1)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("my/base")
args = TrainingArguments(
    "out",
    per_device_train_batch_size=2,
    per_device_eval_batch_size=16 if options.fast else 2,  # expect: MEM207
    eval_strategy="epoch",
)
Trainer(model, args, train_dataset=data["train"], eval_dataset=data["test"]).train()
