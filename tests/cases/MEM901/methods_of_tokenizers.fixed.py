from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
one = tokenizer(text, return_tensors="pt")
many = tokenizer(text=texts, padding=True)
