from trl import RewardConfig, RewardTrainer

trainer = RewardTrainer("microsoft/deberta-v3-base", args=RewardConfig("out"), train_dataset=data)
