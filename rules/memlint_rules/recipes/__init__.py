"""The faults of recipes that are written in words of their own, a file a fault.

A recipe of TRL meets the rules of scripts as it is. Other programs have their own keys and
defaults; what is a fault there is said here, by the code of the rule whose fault it is, which
begins the file's name. ``CHECKS`` of each file holds the check for each program.
"""
