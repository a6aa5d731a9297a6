# about: a tokenizer throws the old word away, where a model raises.
from transformers import AutoConfig, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("q", use_auth_token=True)
config = AutoConfig.from_pretrained("q", use_auth_token=token)
