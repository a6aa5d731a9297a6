"""Really run scripts before and after ``memlint fix``, with tiny stand-ins for models and data.

``python -m tests.two_steps CHECKOUTS`` takes the scripts of ``scripts.toml`` from a folder of
checkouts (``OWNER__NAME``), runs each for three training steps in a process of its own as it is,
after the safe fixes, and after all fixes, and prints what became of them.
"""
