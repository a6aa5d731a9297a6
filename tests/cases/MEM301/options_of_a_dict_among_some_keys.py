# about: A comprehension in the call takes over what a list names.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

PASSED_ON = ("bf16", "gradient_checkpointing", "learning_rate")


def arguments(settings):
    return TrainingArguments("out", **{k: v for k, v in settings.items() if k in PASSED_ON and v is not None})


settings = dict(bf16=True, gradient_checkpointing=False, model="Qwen/Qwen3-0.6B", seed=3)  # expect: MEM301
model = AutoModelForCausalLM.from_pretrained(settings["model"])
Trainer(model, arguments(settings), train_dataset=rows).train()
