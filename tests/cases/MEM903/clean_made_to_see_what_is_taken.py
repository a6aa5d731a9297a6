# about: what no trainer gets was made to learn which options this version has.
from trl import SFTConfig

flat = {}
try:
    SFTConfig("probe", padding_free=True)
    flat["remove_unused_columns"] = False
except (TypeError, AttributeError):
    print("older than padding-free rows")
