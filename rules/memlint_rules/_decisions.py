"""What the author has decided, which a rule may doubt and no fix may overturn."""

from __future__ import annotations

from memlint.rule import Applicability, Fix, Setting


def is_switched_off(setting: Setting) -> bool:
    """Whether the script writes ``False`` itself; a command line's default decides nothing."""
    return setting.given is True and setting.value is False and not setting.by_default


def unless_switched_off(setting: Setting, fix: Fix) -> Fix:
    """``fix``; advice where the script has written ``False`` for the option."""
    if not is_switched_off(setting):
        return fix
    return fix._replace(edits=(), applicability=Applicability.DISPLAY)
