try:
    from trl import setup_chat_format  # expect: MEM901
except ImportError:
    print("install trl")
    raise SystemExit(1)
model, tokenizer = setup_chat_format(model, tokenizer)
