# about: DeepSpeed and FSDP divide the states among GPUs; a command line may bring them.
import argparse
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--deepspeed", default=None)
flags = parser.parse_args()
args = SFTConfig("out", packing=True, deepspeed=flags.deepspeed)
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
