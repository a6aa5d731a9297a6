from transformers import TrainingArguments

def arguments(recipe):
    options = {
        "output_dir": "out",
        "report_to": "tensorboard",
        "warmup_ratio": float(recipe["warmup_ratio"]),  # expect: MEM901
        "logging_dir": str(recipe["logs"]),  # expect: MEM901
    }
    return TrainingArguments(**options)
