import inspect

from transformers import Trainer, TrainingArguments

taken = inspect.signature(TrainingArguments.__init__).parameters
options = {"output_dir": "out", "warmup_ratio": 0.1}  # expect: MEM901
options["eval_strategy" if "eval_strategy" in taken else "evaluation_strategy"] = "steps"
more = {"model": model, "args": TrainingArguments(**options), "train_dataset": rows}
if "tokenizer" in inspect.signature(Trainer.__init__).parameters:
    more["tokenizer"] = tokenizer
elif "processing_class" in inspect.signature(Trainer.__init__).parameters:
    more["processing_class"] = tokenizer
Trainer(**more).train()
