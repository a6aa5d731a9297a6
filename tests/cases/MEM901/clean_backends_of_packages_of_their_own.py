# about: torch finds these where their packages are installed.
from transformers import TrainingArguments

args = TrainingArguments("out", torch_compile_backend="tensorrt")
args = TrainingArguments("out", torch_compile_backend="cudagraphs")
