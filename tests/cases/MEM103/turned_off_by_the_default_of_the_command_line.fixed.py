import argparse
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--packing", type=bool, default=True)
parser.add_argument("--batch", type=int, default=4)
flags = parser.parse_args()
args = SFTConfig("out", packing=flags.packing, per_device_train_batch_size=flags.batch)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
