import torch
import trl
from transformers.utils import send_example_telemetry  # expect: MEM901
from trl import get_kbit_device_map  # expect: MEM901
from trl import set_seed  # expect: MEM901
from trl import is_npu_available  # expect: MEM901
from trl import PPOv2Config as Config  # expect: MEM901

send_example_telemetry("run_clm", None)
trl.set_seed(7)  # expect: MEM901
set_seed(8)
where = get_kbit_device_map()
config = Config(output_dir="out")
device = "npu" if is_npu_available() else "cpu"
print(torch.zeros(1, device=device), where, config)
