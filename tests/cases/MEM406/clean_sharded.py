from accelerate import Accelerator, FullyShardedDataParallelPlugin
from trl import SFTConfig, SFTTrainer

accelerator = Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())
SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig("out"), train_dataset=dataset).train()
