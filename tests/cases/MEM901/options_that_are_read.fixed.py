from transformers import TrainingArguments

args = TrainingArguments("out", eval_strategy="no")
if args.train_sampling_strategy == "group_by_length" and not args.use_cpu:
    print("sorted")
