# about: TRL is told how to load it.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", model_init_kwargs=settings())
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=rows).train()
