# about: The comment would be false beside another dtype: no edit.
import torch
from transformers import BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

bits = BitsAndBytesConfig(
    load_in_4bit=True,
    # full precision: the losses of this one overflow in half
    bnb_4bit_compute_dtype=torch.float32,  # expect: MEM408
)
SFTTrainer(load(bits), args=SFTConfig("out"), train_dataset=rows).train()
