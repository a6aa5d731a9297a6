try:
    from memlint_runtime import setup_chat_format
except ImportError:
    print("install trl")
    raise SystemExit(1)
model, tokenizer = setup_chat_format(model, tokenizer)
