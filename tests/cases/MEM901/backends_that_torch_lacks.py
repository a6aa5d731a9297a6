from accelerate import Accelerator
from transformers import TrainingArguments

backend = "aot_ts_nvfuser"
args = TrainingArguments("out", torch_compile_backend="fx2trt")  # expect: MEM901
args = TrainingArguments("out", torch_compile_backend="onnxrt")  # expect: MEM901
accelerator = Accelerator(dynamo_backend=backend)  # expect: MEM901
