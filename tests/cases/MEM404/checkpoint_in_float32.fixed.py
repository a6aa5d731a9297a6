from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
args = Seq2SeqTrainingArguments("out", tf32=True)
Seq2SeqTrainer(model, args, train_dataset=rows).train()
