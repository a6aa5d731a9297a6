# about: Contexts are divided over eight GPUs, of which each keeps an eighth.
from accelerate import ParallelismConfig
from trl import SFTConfig, SFTTrainer

parts = ParallelismConfig(cp_size=8)
args = SFTConfig("out", max_length=65536, packing=True, parallelism_config=parts)
SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=rows).train()
