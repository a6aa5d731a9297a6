# about: The script minds the version itself.
try:
    from trl import setup_chat_format
except ImportError:
    setup_chat_format = None
