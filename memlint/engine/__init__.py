"""The abstract run of a script: text in, values, calls and state out; nothing above ``source``."""
