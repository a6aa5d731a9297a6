from trl import SFTTrainer
from memlint_runtime import DataCollatorForCompletionOnlyLM

collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
trainer = SFTTrainer(model, train_dataset=dataset, data_collator=collator)
