from trl import GRPOConfig
from project.trainer import PairwiseTrainer

args = GRPOConfig("out", max_prompt_length=512)  # expect: MEM901
trainer = PairwiseTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
