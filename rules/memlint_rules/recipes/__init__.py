"""The faults of recipes that are written in words of their own, a file a program.

A recipe of TRL meets the rules of scripts as it is. Other programs have their own keys and
defaults; what is a fault there is said here, by the code of the rule whose fault it is. ``CHECKS``
of each file is read by ``memlint.run.recipes``.
"""
