from unsloth import FastLanguageModel
from transformers import TrainingArguments
from trl import SFTTrainer

trainer = SFTTrainer(model, args=TrainingArguments("out"), train_dataset=dataset)
