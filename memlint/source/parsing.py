"""Python's parser, bounded: what is too much is told before it takes gigabytes.

A syntax tree takes up to 1.8 KB for each word or sign of the text, and what follows it a multiple
of that. A text of so many is generated data.
"""

import ast
import contextlib
import re
import warnings
from functools import lru_cache

MAX_CHARACTERS = 2 << 20
# Names, signs and lines: twice those of the longest modules that people write.
MAX_TOKENS = 300_000
# Numbers and the commas between them are cheap: a large literal is one line of them, or a few.
_TOKENS = r"[^\W\d]\w*+|[^\w\s,.\"']|\n"


def too_much_code(text: str) -> str:
    """Say why ``text`` is not parsed; empty if it is."""
    if len(text) > MAX_CHARACTERS:
        return (
            f"holds {len(text) / 2**20:.0f} MiB of code, more than the {MAX_CHARACTERS >> 20} MiB "
            "that are parsed; exclude it in the configuration"
        )
    # Nearly all files are shorter than this many characters.
    if len(text) > MAX_TOKENS:
        tokens = len(re.findall(_TOKENS, text))
        if tokens > MAX_TOKENS:
            return (
                f"holds {tokens:,} words and signs of code, more than the {MAX_TOKENS:,} that are "
                "parsed; exclude it in the configuration"
            )
    return ""


# A script is asked for by itself, with what each of its commands gives to it, and by its fixes.
@lru_cache(maxsize=16)
def parse_python(text: str) -> ast.Module:
    """Return the syntax tree of a script, which nobody changes. Raises as ``parsed`` does."""
    return parsed(text)


def parsed(text: str) -> ast.Module:
    """Return a new syntax tree of a script.

    Raises SyntaxError as ``ast.parse`` does, and for too much code; RecursionError where it is
    nested too deeply. Invalid escapes and the like in the user's code are not ours to report.
    """
    refusal = too_much_code(text)
    if refusal:
        raise SyntaxError(refusal)
    tree = compile_python(text, ast.PyCF_ONLY_AST)
    assert isinstance(tree, ast.Module)
    return tree


def compile_python(text: str, flags: int = 0) -> object:
    """Compile a script as notebooks do; what only newer Python takes, as older Python writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _compiled(text, flags)
        except SyntaxError:
            from memlint.source.newer_syntax import as_older

            older = as_older(text)
            if older != text:
                with contextlib.suppress(SyntaxError):
                    return _compiled(older, flags)
            raise
        except MemoryError:  # what Python's parser calls the end of its own stack
            raise RecursionError("nested too deeply") from None


def _compiled(text: str, flags: int) -> object:
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(text, "<script>", "exec", flags, dont_inherit=True)
