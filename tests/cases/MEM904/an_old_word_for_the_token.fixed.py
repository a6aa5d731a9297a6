from transformers import AutoConfig, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("q")
config = AutoConfig.from_pretrained("q")
