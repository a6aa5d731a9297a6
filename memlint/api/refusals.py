"""Combinations of options that a library refuses, as data for rules."""

from memlint.source.record import NamedTuple


class Given(NamedTuple):
    """Anything but None and False."""

    def holds(self, value: object) -> bool:
        return value is not None and value is not False


class Among(NamedTuple):
    """One of ``values``; 1 is not True here."""

    values: tuple[object, ...]

    def holds(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.values)


class Outside(NamedTuple):
    """None of ``values``."""

    values: tuple[object, ...]

    def holds(self, value: object) -> bool:
        return not Among(self.values).holds(value)


class Off(NamedTuple):
    """Not given, or False. Whoever reads a call takes None for what is not given."""

    def holds(self, value: object) -> bool:
        return value is None or value is False


Condition = Given | Among | Outside | Off


class Refusal(NamedTuple):
    """``owner`` and its subclasses refuse ``options`` together.

    owner: a class of configurations; or one of trainers, or ``trl`` for all of TRL's. They are
        asked for their keywords, for ``args.NAME``, an option of their configuration, and for
        ``peft`` and ``model.peft``; a ``ref_model`` may be ``the model``.
    options: name and what its value is, all together.
    since, until: minor versions of ``owner``'s package between which it is refused.
    drop: the option that goes, where one certainly does. change: name and source of the one that
        is set otherwise. Either changes what is trained unless ``safe``.
    advice: what to do where neither is known.
    """

    owner: str
    options: tuple[tuple[str, Condition], ...]
    message: str
    since: str = ""
    until: str = ""
    drop: str = ""
    change: tuple[str, str] = ("", "")
    advice: str = ""
    safe: bool = False
