# target: trl=1.9, transformers=5.20
# about: these releases fill in a loss in chunks where none is named, or no configuration is given.
from trl import SFTConfig, SFTTrainer

options = {"output_dir": "out", "packing": True}
SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(**options), train_dataset=dataset).train()
SFTTrainer("Qwen/Qwen3-0.6B", train_dataset=dataset).train()
named = SFTConfig("named", loss_type="chunked_nll")
SFTTrainer("Qwen/Qwen3-0.6B", args=named, train_dataset=dataset).train()
unknown = SFTConfig("unknown", loss_type=choose())
SFTTrainer("Qwen/Qwen3-0.6B", args=unknown, train_dataset=dataset).train()
