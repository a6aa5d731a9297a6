from torch._dynamo import register_backend
from transformers import TrainingArguments


def ofi(graph, inputs):
    return graph


register_backend(ofi, name="ofi")
args = TrainingArguments("out", torch_compile_backend="ofi")
