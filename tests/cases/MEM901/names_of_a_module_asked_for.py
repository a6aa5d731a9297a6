import torch
from trl import SFTConfig

options = {"output_dir": "out", "evaluation_strategy": "no"}  # expect: MEM901
if not hasattr(torch, dtype):
    raise ValueError(dtype)
args = SFTConfig(**options)
