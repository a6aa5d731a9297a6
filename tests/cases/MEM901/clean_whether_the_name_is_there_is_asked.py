# about: Whether the name is there is asked.
def has_chat_format():
    try:
        from trl import setup_chat_format

        return True
    except ImportError:
        return False
