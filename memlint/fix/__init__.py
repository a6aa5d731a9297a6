"""Rewriting scripts: edits, which are plain data, become new text.

What rewrites Python imports libcst (190 ms), so that its functions are imported where they are
called: nothing on the way of a check without findings does it, nor of a recipe.
"""
