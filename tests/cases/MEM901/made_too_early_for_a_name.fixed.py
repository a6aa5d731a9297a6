from trl import SFTConfig, SFTTrainer
from memlint_runtime import extend_arguments

shared = SFTConfig("shared")
own = SFTConfig("own")
config = SFTConfig("config")
many = SFTConfig("many")
field = texts()
SFTTrainer("a", args=extend_arguments(shared, SFTConfig, dataset_text_field=field))
SFTTrainer("b", args=extend_arguments(shared, SFTConfig, dataset_text_field=field))
own.dataset_text_field = field
trainer = SFTTrainer("c", args=own)
with SFTTrainer("d", args=extend_arguments(config, SFTConfig, dataset_text_field=field)) as held:
    held.train()
for name in ("e", "f"):
    SFTTrainer(name, args=extend_arguments(many, SFTConfig, dataset_text_field=field))
