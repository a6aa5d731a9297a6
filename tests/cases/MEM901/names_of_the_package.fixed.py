import torch
import trl
from transformers.utils import is_torch_npu_available as is_npu_available
from transformers import set_seed
from trl import PPOv2Config as Config
from accelerate import PartialState

set_seed(7)
set_seed(8)
where = {"": PartialState().local_process_index}
config = Config(output_dir="out")
device = "npu" if is_npu_available() else "cpu"
print(torch.zeros(1, device=device), where, config)
