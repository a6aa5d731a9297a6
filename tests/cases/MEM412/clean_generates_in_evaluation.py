# about: Each evaluation writes its answers token by token, and each token reads the whole base.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-xl", dtype=torch.bfloat16)
model = get_peft_model(model, LoraConfig(task_type="SEQ_2_SEQ_LM"))
arguments = Seq2SeqTrainingArguments("out", bf16=True, predict_with_generate=True)
Seq2SeqTrainer(model=model, args=arguments, train_dataset=rows, eval_dataset=tests).train()
