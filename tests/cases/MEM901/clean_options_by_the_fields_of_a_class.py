import dataclasses
import inspect

from trl import SFTConfig


def build(cls, **options):
    taken = inspect.signature(cls.__init__)
    return cls(**{name: value for name, value in options.items() if name in taken.parameters})


build(SFTConfig, output_dir="out", evaluation_strategy="no")
fields = {field.name for field in dataclasses.fields(SFTConfig)}
options = dict(output_dir="out", max_seq_length=512)
SFTConfig(**{name: value for name, value in options.items() if name in fields})
