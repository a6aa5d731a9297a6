from elsewhere import model, tokenizer
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

args = TrainingArguments("out", eval_strategy="epoch", activation_checkpointing=True)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
Trainer(model, args, data_collator=collator, compute_metrics=accuracy).train()  # expect: MEM205
