from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
one = tokenizer.encode_plus(text, return_tensors="pt")  # expect: MEM901
many = tokenizer.batch_encode_plus(batch_text_or_text_pairs=texts, padding=True)  # expect: MEM901
