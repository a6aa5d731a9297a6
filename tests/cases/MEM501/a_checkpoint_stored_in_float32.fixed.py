from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-xl")
args = Seq2SeqTrainingArguments("out", optim="adamw_bnb_8bit")
Seq2SeqTrainer(model=model, args=args, train_dataset=dataset).train()
