import torch
from trl import SFTConfig

options = {"output_dir": "out", "eval_strategy": "no"}
if not hasattr(torch, dtype):
    raise ValueError(dtype)
args = SFTConfig(**options)
