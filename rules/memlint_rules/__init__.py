"""The rules of memlint, one fault a file: ``memNNN_name_of_the_fault.py`` holds ``RULE``.

``memlint.rule.registry`` finds them by file name; nothing here fills a registry by being imported.
"""
