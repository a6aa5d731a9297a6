from transformers import DataCollatorForLanguageModeling
from trl import SFTConfig, SFTTrainer

collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)  # expect: MEM105
args = SFTConfig("out", packing=True)
SFTTrainer("q", args=args, train_dataset=dataset, data_collator=collator).train()
