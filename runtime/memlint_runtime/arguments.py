"""Options that a trainer once took itself, put into the arguments that it is given.

    trainer = SFTTrainer(model, args=extend_arguments(args, SFTConfig, max_length=2048))

What: TRL's trainers took `packing`, `max_seq_length`, `beta` and more beside ``args=`` until 0.12;
now only their configuration has them.
Why: where the arguments come from another function, a script cannot say in one place whether they
are plain `TrainingArguments` or TRL's own. A trainer converts plain ones and would lose what was
set on them before.
Cost: none.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

__all__ = ["extend_arguments"]

Kind = TypeVar("Kind")


def extend_arguments(args: Any, kind: type[Kind], /, **options: Any) -> Kind:
    """``args`` as a ``kind`` (`SFTConfig`, ...) with ``options`` set; None says nothing.

    args: a ``kind``, which is changed and returned; plain `TrainingArguments`, which become one as
        TRL's trainers make it; or None, for the defaults of ``kind``.

    ValueError for an option that ``kind`` does not have, and for arguments of another class.
    """
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(options) - fields)
    if unknown:
        raise ValueError(f"{kind.__name__} has no {', '.join(unknown)}: set its own options.")
    said = {name: value for name, value in options.items() if value is not None}
    if args is None:
        return kind(**said)
    if isinstance(args, kind):
        for name, value in said.items():
            setattr(args, name, value)
        return args
    given = (
        {field.name for field in dataclasses.fields(args)}
        if dataclasses.is_dataclass(args)
        else set()
    )
    foreign = sorted(given - fields)
    if not given or foreign or not hasattr(args, "to_dict"):
        what = f"{type(args).__name__}, which has {', '.join(foreign)}" if foreign else repr(args)
        raise ValueError(
            f"args must be {kind.__name__} or plain TrainingArguments, got {what}. Make a "
            f"{kind.__name__} of it first."
        )
    plain = args.to_dict()
    # The dictionary hides the token.
    plain["hub_token"] = args.hub_token
    plain.pop("push_to_hub_token", None)
    return kind(**{**plain, **said})
