# target: transformers=4.57
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
ids = tokenizer.apply_chat_template(chat) + [1]
