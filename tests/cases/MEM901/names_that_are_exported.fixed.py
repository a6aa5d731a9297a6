from transformers import set_seed
from transformers.utils import send_example_telemetry

__all__ = ["set_seed"]


def begin(report):
    report(send_example_telemetry)
