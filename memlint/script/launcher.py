"""What starts a script and decides beside it: sharding, mixed precision, how many processes.

``accelerate launch`` tells its script so by environment variables: a trainer, or accelerate's own
``Accelerator()``, takes them where the script says nothing. Source: ``accelerate/utils/launch.py``.
"""

from collections.abc import Mapping, Sequence

from memlint.source.record import Record

_WHOLE = ("none", "ddp")


class Launcher(Record):
    """What the launch commands of a script decide.

    None stands for what nobody can tell: commands disagree, or a file is not at hand.
    sharding: ``none``, ``ddp``, ``fsdp``, ``fsdp2``, ``zero1`` to ``zero3``. options: those of the
    sharding, plain values. checkpoints: FSDP checkpoints every layer. mixed_precision: ``no``,
    ``bf16``, ``fp16``, ``fp8``; empty where the launcher says nothing. processes: on all machines.
    complete: the script gets no arguments but those that are known. unseen: the file that decides
    the sharding, where one is named and not at hand. expandable: whether its environment
    lets the allocator's segments grow; None where there is no command, too.
    """

    sharding: str | None = "none"
    options: Mapping[str, object] = {}
    checkpoints: bool | None = False
    mixed_precision: str | None = ""
    processes: int | None = None
    complete: bool = False
    unseen: str = ""
    expandable: bool | None = None

    @property
    def engine(self) -> str:
        """The option that configures what shards: ``deepspeed``, ``fsdp``; empty where nothing
        does, ``unknown`` where something may."""
        if self.sharding is None:
            return "unknown"
        return "" if self.sharding in _WHOLE else "fsdp" if "fsdp" in self.sharding else "deepspeed"


UNDECIDED = Launcher(None, {}, None, None)


def joined(launchers: Sequence[Launcher]) -> Launcher:
    """What all launchers of a script decide alike; the default where there is none."""
    if not launchers:
        return Launcher()
    several = {
        name: [getattr(launcher, name) for launcher in launchers] for name in Launcher._fields
    }
    disputed = [name for name, values in several.items() if any(v != values[0] for v in values)]
    decided = {name: getattr(UNDECIDED, name) for name in disputed}
    if "sharding" in decided and all(one.sharding in _WHOLE for one in launchers):
        # One process or several: each holds all of the model.
        decided["sharding"] = "none"
    return launchers[0]._replace(**decided)
