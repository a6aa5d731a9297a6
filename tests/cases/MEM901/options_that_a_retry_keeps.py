from trl import GRPOConfig

options = {"output_dir": "out", "warmup_ratio": 0.1, "use_vllm": False}  # expect: MEM901
try:
    args = GRPOConfig(**options)
except TypeError:
    for name in ("vllm_mode", "use_vllm"):
        options.pop(name, None)
    args = GRPOConfig(**options)
