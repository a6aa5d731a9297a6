from trl import SFTConfig

args = SFTConfig("out", packing=True, max_length=None)  # expect: MEM903
