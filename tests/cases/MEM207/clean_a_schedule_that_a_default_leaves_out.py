import fire
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def train(base: str = "my/base", held_out: int = 0, rows: int = 2):
    model = AutoModelForCausalLM.from_pretrained(base)
    schedule = "steps" if held_out > 0 else "no"
    args = TrainingArguments("out", per_device_train_batch_size=rows, eval_strategy=schedule)
    Trainer(model, args, train_dataset=data["train"], eval_dataset=data["test"]).train()


fire.Fire(train)
