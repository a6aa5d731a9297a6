# target: trl=0.11,transformers=4.45
from trl import SFTConfig, SFTTrainer

SFTTrainer("q", args=SFTConfig("out"), train_dataset=dataset, packing=True).train()  # expect: MEM105 hint
