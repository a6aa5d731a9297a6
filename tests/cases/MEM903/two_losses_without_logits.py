# target: trl=1.9, transformers=5.20
from trl import SFTConfig

args = SFTConfig("out", loss_type="chunked_nll", use_liger_kernel=True)  # expect: MEM903
filled_in = SFTConfig("out", use_liger_kernel=True)
