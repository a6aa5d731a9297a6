from accelerate import Accelerator
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

args = Seq2SeqTrainingArguments("out", fp16=True, bf16=False)  # expect: MEM403
Seq2SeqTrainer(model, args, train_dataset=rows).train()
accelerator = Accelerator(mixed_precision="fp16")  # expect: MEM403
for batch in loader:
    accelerator.backward(model(**batch).loss)
