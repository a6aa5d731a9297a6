from transformers import TrainingArguments

args = TrainingArguments("out", evaluation_strategy="no")  # expect: MEM901
if args.group_by_length and not args.no_cuda:  # expect: MEM901, MEM901
    print("sorted")
