import inspect

from trl import SFTConfig, SFTTrainer


def build(cls, **options):
    return cls(**{name: value for name, value in options.items() if value is not None})


args = build(SFTConfig, output_dir="out", max_seq_length=512)  # expect: MEM901
if "processing_class" in inspect.signature(SFTTrainer).parameters:
    print("a new release")
