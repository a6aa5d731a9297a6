from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

arguments = SFTConfig(
    "summaries", learning_rate=1e-4, bf16=True, gradient_checkpointing=True
)
SFTTrainer(model, args=arguments, train_dataset=articles, max_seq_length=1024).train()
