# about: The trainer and its configuration say the same, different things, or nobody knows.
import sys

from trl import SFTConfig, SFTTrainer

limit = int(sys.argv[1])
SFTTrainer("m", args=SFTConfig("a", packing=True), packing=True)  # expect: MEM901
SFTTrainer("m", args=SFTConfig("b", max_length=1024), max_seq_length=2048)  # expect: MEM901
SFTTrainer("m", args=SFTConfig("c", max_length=1024), max_seq_length=None)  # expect: MEM901
SFTTrainer("m", args=SFTConfig("d"), max_seq_length=limit)  # expect: MEM901
SFTTrainer("m", max_seq_length=limit)  # expect: MEM901
