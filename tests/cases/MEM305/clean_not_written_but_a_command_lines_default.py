# about: Not written, but a command line's default.
import argparse
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--length", type=int, default=32768)
args = SFTConfig("out", max_length=parser.parse_args().length)
SFTTrainer("q", args=args, train_dataset=dataset).train()
