from trl import SFTConfig

options = dict(output_dir="out", evaluation_strategy="no")
known = SFTConfig.__dataclass_fields__
args = SFTConfig(**{name: value for name, value in options.items() if name in known})
