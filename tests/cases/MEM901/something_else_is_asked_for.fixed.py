from transformers import TrainingArguments

args = TrainingArguments("out")
if hasattr(model, "no_cuda") and args.use_cpu:
    print("no GPU")
