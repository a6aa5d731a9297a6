from trl import SFTConfig, SFTTrainer

shared = SFTConfig("shared")
own = SFTConfig("own")
config = SFTConfig("config")
many = SFTConfig("many")
field = texts()
SFTTrainer("a", args=shared, dataset_text_field=field)
SFTTrainer("b", args=shared, dataset_text_field=field)
own.dataset_text_field = field
trainer = SFTTrainer("c", args=own)
with SFTTrainer("d", args=config, dataset_text_field=field) as held:
    held.train()
for name in ("e", "f"):
    SFTTrainer(name, args=many, dataset_text_field=field)
