from transformers import AutoTokenizer, Trainer, TrainingArguments

if hasattr(TrainingArguments, "eval_strategy"):
    args = TrainingArguments("out", eval_strategy="no")
else:
    args = TrainingArguments("out", evaluation_strategy="no")
if hasattr(args, "no_cuda") and args.no_cuda:
    print("no GPU")
print(args.evaluation_strategy if hasattr(args, "evaluation_strategy") else args.eval_strategy)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
if hasattr(trainer, "tokenizer"):
    trainer.tokenizer.save_pretrained("out")
tokenizer = AutoTokenizer.from_pretrained("gpt2")
if not hasattr(tokenizer, "encode_plus"):
    encode = tokenizer
else:
    encode = tokenizer.encode_plus
