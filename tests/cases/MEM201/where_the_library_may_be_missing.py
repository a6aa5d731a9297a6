# about: What stands for a library that may be missing is no model.
try:
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
except ImportError:
    AutoModelForCausalLM = object
    Trainer = TrainingArguments = None


def load(name):
    return AutoModelForCausalLM.from_pretrained(name)


model = load("Qwen/Qwen3-0.6B")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows).train()  # expect: MEM201
