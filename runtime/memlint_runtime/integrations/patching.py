"""What every function that changes a model or trainer returns: a handle that undoes it.

    patch = fuse_causal_lm_loss(model)
    patch.undo()
    undo(model)  # all that this package has changed in it, the last first

Patches of this package may be undone in any order. What another library has put over one in the
meantime (accelerate's mixed precision, say) stays: below it, the patch passes calls through.

A copy of the whole model is patched itself, and computes with its own weights; so is each of the
replicas that `nn.DataParallel` makes of it for a call. A copy of a part is refused, and so is
pickling: `state_dict` and `save_pretrained` are unaffected by patches.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType, TracebackType
from typing import Any, Protocol, TypeVar

from memlint_runtime.integrations.modes import require_model

__all__ = [
    "REPLICATE", "Patch", "bound_to", "changes_of", "is_replica", "list_at", "owner_of",
    "patches_of", "take_off", "undo",
]  # fmt: skip

_PATCHES = "memlint_patches"

# What `nn.DataParallel` calls on each module to make a replica of it, a shallow copy.
REPLICATE = "_replicate_for_data_parallel"

_T = TypeVar("_T", bound="Patch")


@dataclass(eq=False)
class _Replacement:
    """An attribute of an owner's own: what it holds now, and what, if anything, it held before."""

    owner: Any
    name: str
    had: bool
    former: Any
    present: Any


class Patch:
    """Undoes a change by `undo()`, or at the end of a `with` block.

    owner: the model or trainer that was changed. what: the change in words, for messages.
    result: what came of it (an offload, sampler, optimizer or trainer), whose attributes the handle
    hands on.
    """

    def __init__(self, owner: Any, what: str, result: Any = None) -> None:
        self.result = result
        self.owner = owner
        self.what = what
        self.active = True
        self._replacements: list[_Replacement] = []
        self._callbacks: list[Callable[[], None]] = []
        list_at(owner, self)

    def __getattr__(self, name: str) -> Any:
        result = vars(self).get("result")
        if result is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(result, name)

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of `owner`'s own, past nn.Module's bookkeeping."""
        if _is_of(value, owner) and hasattr(owner, REPLICATE):
            self._follow_replicas(owner)
        self._replacements.append(_replaced(owner, name, value))

    def _follow_replicas(self, owner: Any) -> None:
        if not any(r.owner is owner and r.name == REPLICATE for r in self._replacements):
            method = bound_to(owner, REPLICATE, _replicating)
            self._replacements.append(_replaced(owner, REPLICATE, method))

    def on_undo(self, callback: Callable[[], None]) -> None:
        """Call this when the patch is undone, before attributes go back."""
        self._callbacks.append(callback)

    def undo(self) -> None:
        """Put back what was there. Doing it twice is harmless."""
        self.active = False
        while self._callbacks:
            self._callbacks.pop()()
        while self._replacements:
            _put_back(self._replacements.pop())
        take_off(self.owner, self)

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def __deepcopy__(self: _T, memo: dict[int, Any]) -> _T:
        if id(self.owner) not in memo:
            raise ValueError(
                f"{self.what}: a copy of a part would still use the whole model. Copy the whole "
                "model, or undo() before copying"
            )
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        for name, value in vars(self).items():
            setattr(copied, name, copy.deepcopy(value, memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ValueError(
            f"{self.what}, which cannot be pickled: save its state_dict (save_pretrained does), or "
            "undo() before pickling the model"
        )


def owner_of(changed: Any) -> Any:
    """The model or trainer that a handle has changed, or what is no handle itself."""
    return changed.owner if isinstance(changed, Patch) else changed


class Undoable(Protocol):
    """What `undo` finds at a model or trainer. what: the change in words."""

    what: str

    def undo(self) -> None:
        """Put back what was there."""


def list_at(owner: Any, change: Undoable) -> None:
    """Let `undo(owner)` find this change."""
    vars(owner).setdefault(_PATCHES, []).append(change)


def take_off(owner: Any, change: Undoable) -> None:
    """The change is undone."""
    changes = vars(owner).get(_PATCHES, [])
    changes[:] = [other for other in changes if other is not change]
    if not changes:
        vars(owner).pop(_PATCHES, None)


def patches_of(owner: Any) -> list[Undoable]:
    """The patches of a model or trainer, in the order in which they were made."""
    return list(vars(owner).get(_PATCHES, []))


def undo(owner: Any) -> None:
    """Undo all that this package has changed in a model, its modules and wrappers, or a trainer.

    owner: one of these, or the handle of a change, which alone is undone then.
    Raises TypeError for what can be neither.
    """
    if isinstance(owner, Patch):
        owner.undo()
        return
    if not hasattr(owner, "__dict__") or (isinstance(owner, type) and hasattr(owner, "modules")):
        require_model(owner, "the model or trainer that was changed")
    for change in reversed(changes_of(owner)):
        change.undo()


def changes_of(owner: Any) -> list[Undoable]:
    """What this package has changed in a model, its modules and wrappers, or a trainer."""
    models = [owner, *(vars(owner).get(name) for name in ("model", "ref_model", "model_wrapped"))]
    seen: dict[int, Undoable] = {}
    for model in models:
        modules = model.modules() if hasattr(model, "modules") else [model]
        for module in modules:
            if module is not None and hasattr(module, "__dict__"):
                seen.update((id(patch), patch) for patch in patches_of(module))
    return list(seen.values())


def bound_to(owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> MethodType:
    """A method of `owner` in place of what it has under `name`.

    make: is given that, as a function of the owner and the arguments, and returns one of its own.
    Being bound to its owner, it is bound to the copy where the owner is copied, and stays right
    where a library unbinds it to wrap it (accelerate's mixed precision does).
    """
    present = getattr(owner, name)
    unbound: Any
    if getattr(present, "__self__", None) is owner:
        unbound = present.__func__
    else:

        @functools.wraps(present)
        def unbound(self: Any, *args: Any, **kwargs: Any) -> Any:
            return present(*args, **kwargs)

    made = make(unbound)
    functools.update_wrapper(made, unbound)
    try:
        parameters = list(inspect.signature(present).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    if not any(parameter.name == "self" for parameter in parameters):
        made.__signature__ = inspect.Signature([first, *parameters])
    return MethodType(made, owner)


def is_replica(module: Any) -> bool:
    """True if `nn.DataParallel` made it, for one call."""
    return bool(vars(module).get("_is_replica"))


def _is_of(value: Any, owner: Any) -> bool:
    """True if a value computes with `owner`: a method of it, or what can be made one of another."""
    return getattr(value, "__self__", None) is owner or hasattr(type(value), "for_replica")


def _replicating(own: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a replica whose methods are its own, where a shallow copy's are the original's."""

    def replicate(self: Any) -> Any:
        replica = own(self)
        for name, value in vars(self).items():
            if isinstance(value, MethodType) and value.__self__ is self:
                vars(replica)[name] = MethodType(value.__func__, replica)
            elif hasattr(type(value), "for_replica"):
                vars(replica)[name] = value.for_replica(replica)
        return replica

    return replicate


def _replaced(owner: Any, name: str, value: Any) -> _Replacement:
    own = vars(owner)
    made = _Replacement(owner, name, name in own, own.get(name), value)
    _stack_of(owner).append(made)
    _set(owner, name, value)
    return made


def _stack_of(owner: Any) -> list[_Replacement]:
    stack: list[_Replacement] = vars(owner).setdefault("memlint_replacements", [])
    return stack


def _put_back(gone: _Replacement) -> None:
    stack = _stack_of(gone.owner)
    if gone in stack:
        stack.remove(gone)
    if not stack:
        vars(gone.owner).pop("memlint_replacements", None)
    if vars(gone.owner).get(gone.name) is gone.present:
        if gone.had:
            _set(gone.owner, gone.name, gone.former)
        else:
            vars(gone.owner).pop(gone.name, None)
        return
    for later in stack:
        # A later patch of ours holds this one as what was there before.
        if later.name == gone.name and later.former is gone.present:
            later.had, later.former = gone.had, gone.former


def _set(owner: Any, name: str, value: Any) -> None:
    vars(owner)[name] = value
