"""What the runtime package needs: the versions of the ``runtime`` extra, and who needs which.

A fix that imports the runtime makes the user install it. Where their versions are older, that would
bring new ones into their project, so no such fix is offered there.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from memlint.api.target_versions import Target
from memlint.api.versions import satisfies

PACKAGE = "memlint_runtime"
INSTALL = "pip install 'torch-memlint[runtime]'"

# As in pyproject.toml, which a test compares.
NEEDS: Mapping[str, str] = MappingProxyType(
    {"torch": "2.11", "transformers": "5.17", "accelerate": "1.4"}
)
NEEDS_OF_TRL_PARTS: Mapping[str, str] = MappingProxyType({"trl": "1.16"})
# What works on TRL's own classes; the rest works without TRL.
_TRL_PARTS = ("memlint_runtime.trl", "memlint_runtime.losses.fuse_trl_losses")


def is_of_runtime(qualname: str) -> bool:
    """True if ``qualname`` is the runtime package or in it."""
    return qualname == PACKAGE or qualname.startswith(f"{PACKAGE}.")


def lacking(names: Iterable[str], target: Target) -> tuple[str, ...]:
    """What ``target`` lacks for the runtime's ``names``: ``torch 2.11 or later (here 2.9.1)``."""
    needs = dict(NEEDS)
    if any(name.startswith(_TRL_PARTS) or name.endswith(".fuse_trl_losses") for name in names):
        needs.update(NEEDS_OF_TRL_PARTS)
    return tuple(
        f"{package} {bound} or later (here {target.version(package).version})"
        for package, bound in needs.items()
        if not satisfies(target.version(package).version, f">={bound}")
    )
