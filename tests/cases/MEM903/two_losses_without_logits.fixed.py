from trl import SFTConfig

args = SFTConfig("out", loss_type="chunked_nll")
filled_in = SFTConfig("out", use_liger_kernel=True)
