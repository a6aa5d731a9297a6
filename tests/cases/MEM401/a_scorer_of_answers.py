# target: trl=0.15,transformers=4.48
from transformers import AutoModelForSequenceClassification
from trl import RewardConfig, RewardTrainer

scorer = AutoModelForSequenceClassification.from_pretrained(  # expect: MEM401
    "meta-llama/Llama-3.1-8B", num_labels=1
)
trainer = RewardTrainer(model=scorer, args=RewardConfig("out", bf16=True), train_dataset=pairs)
trainer.train()
