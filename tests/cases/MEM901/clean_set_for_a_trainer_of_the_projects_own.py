# about: Set for a trainer of the project's own, which may read it.
from trl import GRPOConfig
from project.trainer import PairwiseTrainer

args = GRPOConfig("out")
args.max_prompt_length = 512
trainer = PairwiseTrainer(model=model, args=args, train_dataset=dataset)
print(args.max_prompt_length)
