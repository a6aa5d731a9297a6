# about: Positions keep them apart.
from trl import SFTConfig, SFTTrainer

SFTTrainer("q", args=SFTConfig("out", packing=True), train_dataset=dataset).train()
