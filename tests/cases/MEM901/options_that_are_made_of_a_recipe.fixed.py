from transformers import TrainingArguments
from os import environ

def arguments(recipe):
    environ["TENSORBOARD_LOGGING_DIR"] = str(recipe["logs"])
    options = {
        "output_dir": "out",
        "report_to": "tensorboard",
        "warmup_steps": float(recipe["warmup_ratio"]),
    }
    return TrainingArguments(**options)
