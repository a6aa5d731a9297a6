from transformers import AutoModelForSequenceClassification
from trl import RewardConfig, RewardTrainer
import torch

scorer = AutoModelForSequenceClassification.from_pretrained(
    "meta-llama/Llama-3.1-8B", num_labels=1, torch_dtype=torch.bfloat16
)
trainer = RewardTrainer(model=scorer, args=RewardConfig("out", bf16=True), train_dataset=pairs)
trainer.train()
