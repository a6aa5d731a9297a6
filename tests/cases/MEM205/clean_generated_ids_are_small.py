# about: Generated ids are small.
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

args = Seq2SeqTrainingArguments("out", eval_strategy="epoch", predict_with_generate=True)
model = AutoModelForSeq2SeqLM.from_pretrained("google-t5/t5-small")
Seq2SeqTrainer(model, args, compute_metrics=rouge).train()
