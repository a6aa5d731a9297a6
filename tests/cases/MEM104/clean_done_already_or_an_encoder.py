# about: Done; an encoder cannot keep documents apart here.
from memlint_runtime import train_without_padding
from trl import DPOConfig, DPOTrainer

trainer = DPOTrainer("q", args=DPOConfig("out"), train_dataset=dataset)
train_without_padding(trainer)
