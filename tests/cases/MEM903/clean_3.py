from transformers import TrainingArguments

args = TrainingArguments("out", dataloader_prefetch_factor=2, dataloader_num_workers=4)
