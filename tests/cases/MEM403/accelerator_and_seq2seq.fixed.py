from accelerate import Accelerator
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

args = Seq2SeqTrainingArguments("out", fp16=False, bf16=True)
Seq2SeqTrainer(model, args, train_dataset=rows).train()
accelerator = Accelerator(mixed_precision="bf16")
for batch in loader:
    accelerator.backward(model(**batch).loss)
