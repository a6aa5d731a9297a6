from trl import SFTConfig

options = {"output_dir": "out", "max_seq_length": 512}
for name in list(options):
    if not hasattr(SFTConfig, name):
        del options[name]
args = SFTConfig(**options)
for name, value in dict(evaluation_strategy="no").items():
    if hasattr(args, name):
        setattr(args, name, value)
