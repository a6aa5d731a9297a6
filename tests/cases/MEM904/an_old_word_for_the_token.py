from transformers import AutoConfig, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("q", use_auth_token=True)  # expect: MEM904 hint
config = AutoConfig.from_pretrained("q", use_auth_token=token)  # expect: MEM904 hint
