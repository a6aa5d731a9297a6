# about: Arguments that are unpacked say not what they are.
from transformers import AdamW  # expect: MEM901

first = AdamW(*arguments)
