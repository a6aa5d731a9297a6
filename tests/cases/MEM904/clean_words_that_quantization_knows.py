from transformers import BitsAndBytesConfig


class Own(BitsAndBytesConfig):
    def __init__(self, own_word=None, **kwargs):
        super().__init__(**kwargs)


made = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True)
read = BitsAndBytesConfig(**{"quant_method": "bitsandbytes", "_load_in_4bit": True})
own = Own(own_word=1, load_in_4bit=True)
open_one = BitsAndBytesConfig(**options)
