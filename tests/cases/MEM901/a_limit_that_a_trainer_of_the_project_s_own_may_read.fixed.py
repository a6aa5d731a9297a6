from trl import GRPOConfig
from project.trainer import PairwiseTrainer

args = GRPOConfig("out")
# No option of trl's own any more; a trainer that is not trl's may read it.
args.max_prompt_length = 512
trainer = PairwiseTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
