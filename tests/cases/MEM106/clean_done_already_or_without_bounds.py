# about: Already done; nothing is packed; packed without bounds between documents.
from memlint_runtime import use_variable_length_attention
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("q", args=SFTConfig("out", packing=True), train_dataset=dataset)
use_variable_length_attention(trainer.model)
