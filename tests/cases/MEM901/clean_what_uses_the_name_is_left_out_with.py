# about: What uses the name is left out with it.
def formatted(model, tokenizer):
    try:
        from trl import setup_chat_format

        model, tokenizer = setup_chat_format(model, tokenizer)
    except ImportError:
        pass
    return model, tokenizer
