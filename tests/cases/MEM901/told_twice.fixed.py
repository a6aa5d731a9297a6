import sys

from trl import SFTConfig, SFTTrainer

limit = int(sys.argv[1])
SFTTrainer("m", args=SFTConfig("a", packing=True))
SFTTrainer("m", args=SFTConfig("b", max_length=1024), max_seq_length=2048)
SFTTrainer("m", args=SFTConfig("c", max_length=1024))
SFTTrainer("m", args=SFTConfig("d", max_length=limit))
SFTTrainer("m", args=SFTConfig(max_length=limit))
