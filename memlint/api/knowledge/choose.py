"""Picks the line of the hand-written knowledge that holds at a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.api.successors import Successor

if TYPE_CHECKING:
    from memlint.api.lookup import Api


def successor(api: Api, qualname: str, parameter: str | None, value: object) -> Successor | None:
    """The successor that fits the target."""
    return None
