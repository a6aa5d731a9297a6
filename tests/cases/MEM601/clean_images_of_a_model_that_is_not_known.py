# about: What the model does with its images decides, and its name says nothing of that.
from trl import GRPOConfig, GRPOTrainer

dataset = load(columns=["prompt", "image"])
trainer = GRPOTrainer(
    "our/own-model", reward_funcs=reward, args=GRPOConfig("out"), train_dataset=dataset
)
trainer.train()
