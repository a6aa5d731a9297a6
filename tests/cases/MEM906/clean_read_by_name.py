# about: Read by name.
from trl import SFTConfig

packing = True
options = {name: globals()[name] for name in ("packing",)}
args = SFTConfig("out", **options)
