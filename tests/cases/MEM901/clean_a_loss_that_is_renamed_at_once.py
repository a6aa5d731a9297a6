# about: its configuration turns the old name into the new one.
from trl import SFTConfig

args = SFTConfig("out", loss_type="chunked_nll")
