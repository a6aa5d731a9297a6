from transformers import TrainingArguments

args = TrainingArguments("out")
if hasattr(model, "no_cuda") and args.no_cuda:  # expect: MEM901
    print("no GPU")
