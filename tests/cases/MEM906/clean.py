from trl import SFTConfig

packing = True
args = SFTConfig("out", packing=packing)
