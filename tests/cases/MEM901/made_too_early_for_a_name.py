# about: What the trainer is told is known only after its configuration is made.
from trl import SFTConfig, SFTTrainer

shared = SFTConfig("shared")
own = SFTConfig("own")
config = SFTConfig("config")
many = SFTConfig("many")
field = texts()
SFTTrainer("a", args=shared, dataset_text_field=field)  # expect: MEM901
SFTTrainer("b", args=shared, dataset_text_field=field)  # expect: MEM901
trainer = SFTTrainer("c", args=own, dataset_text_field=field)  # expect: MEM901
with SFTTrainer("d", args=config, dataset_text_field=field) as held:  # expect: MEM901
    held.train()
for name in ("e", "f"):
    SFTTrainer(name, args=many, dataset_text_field=field)  # expect: MEM901
