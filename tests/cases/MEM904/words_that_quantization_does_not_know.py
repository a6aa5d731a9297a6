import torch
from transformers import BitsAndBytesConfig

eight = BitsAndBytesConfig(
    load_in_8bit=True,
    bnb_8bit_compute_dtype=torch.float32,  # expect: MEM904
    bnb_8bit_quantizer="qat8",  # expect: MEM904
)
double = {"load_in_4bit": True, "bnb_4bit_use_double_quantization": True}  # expect: MEM904
four = BitsAndBytesConfig(**double)
