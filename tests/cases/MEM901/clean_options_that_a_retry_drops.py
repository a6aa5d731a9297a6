from trl import GRPOConfig

options = {"output_dir": "out", "warmup_ratio": 0.1}
try:
    args = GRPOConfig(**options)
except TypeError:
    options.pop("warmup_ratio")
    args = GRPOConfig(**options)

others = {"output_dir": "out", "warmup_ratio": 0.1}
try:
    args = GRPOConfig(**others)
except TypeError as error:
    del others[named_in(error)]
    args = GRPOConfig(**others)

try:
    args = GRPOConfig("out", warmup_ratio=0.1)
except TypeError:
    args = GRPOConfig("out")
