"""Where values go: one answer for all who follow a tensor, an object or rows of data.

Built on what the engine has evaluated. Nothing here reads the syntax tree.
"""
