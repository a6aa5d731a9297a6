# about: T5 is stored in float32, so that its states are too, whatever the loader's default is.
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-xl")
args = Seq2SeqTrainingArguments("out", optim="adamw_torch")  # expect: MEM501
Seq2SeqTrainer(model=model, args=args, train_dataset=dataset).train()
