from trl import is_xpu_available  # expect: MEM901
from trl import set_seed  # expect: MEM901
from transformers.utils import send_example_telemetry  # expect: MEM901

__all__ = ["set_seed"]


def begin(report):
    report(send_example_telemetry)
