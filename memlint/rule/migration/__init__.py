"""From one release to another: what went, what took its place, and the edits that bring it there.

The rules of ``memlint_rules.migration`` find and report; how a lost option, name or argument is
replaced is the same for all of them and stands here. What replaced what is data of ``memlint.api``.
"""
