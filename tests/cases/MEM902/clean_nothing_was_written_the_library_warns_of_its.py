# about: Nothing was written: the library warns of its own default.
from trl import SFTConfig

args = SFTConfig("out")
