"""What a name means at the target: the questions that rules ask of the tables.

Names are qualified names as scripts use them (``trl.SFTConfig``, ``trl.trainer.SFTConfig``,
``transformers.AutoModelForCausalLM.from_pretrained``). Every answer is for the target's versions;
bases and fields are followed from package to package, each at its own version, so that an
``SFTConfig`` of trl 0.15 stands on the ``TrainingArguments`` that the user has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from memlint.api.classes import PLAIN_BASES, WITHOUT_CONSTRUCTOR
from memlint.api.histories import Histories
from memlint.api.knowledge.defaults import FORWARDED, MENDED_DEFAULTS
from memlint.api.knowledge.warned import WARNED
from memlint.api.records import parameters, signature_of, with_forwarded
from memlint.api.signatures import Expression, Kind, Parameter, Signature, Unset
from memlint.api.tables import PACKAGES, Entry, holds
from memlint.api.target import Target
from memlint.api.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlint.api.knowledge.families import Family
    from memlint.api.knowledge.migrations import Ignored, Warned
    from memlint.api.refusals import Refusal
    from memlint.api.successors import Successor


class Api(Histories):
    """The tables at one target. Answers are kept; asking twice costs nothing."""

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(target)
        self._signatures: dict[str, Signature | None] = {}
        self._successors: dict[tuple[str, str | None, str], Successor | None] = {}

    def signature(self, qualname: str) -> Signature | None:
        """Parameters of a function, a method (``trl.SFTTrainer.train``) or a class's constructor;
        None where the target does not have it or the tables do not describe it."""
        name = self.canonical(qualname)
        if name not in self._signatures:
            self._signatures[name] = self._signature(name)
        return self._signatures[name]

    def last_signature(self, qualname: str) -> Signature | None:
        """That of a function, in the newest release that has it where the target has not."""
        record, release = self._at(self.canonical(qualname))
        if record is None or "function" not in record:
            return None
        return signature_of(parameters(record["function"], release))

    def default(self, qualname: str, parameter: str) -> object:
        """The default of ``parameter`` at the target. Raises KeyError where there is none such."""
        signature = self.signature(qualname)
        if signature is None or parameter not in signature.parameters:
            raise KeyError(f"{qualname} has no parameter {parameter!r} at {self.target}")
        return signature.parameters[parameter].default

    def accepts(self, qualname: str, parameter: str) -> bool | None:
        """Whether a call at the target takes the keyword ``parameter``.

        None where that is open: nothing is known of the callable, or it takes any keyword and the
        name was never one of its own. A name that it once read and reads no more is not accepted,
        whatever else it takes.
        """
        signature = self.signature(qualname)
        if signature is None:
            return None
        if parameter in signature.parameters:
            return signature.parameters[parameter].kind is not Kind.POSITIONAL_ONLY
        if not signature.accepts_any:
            return False
        return False if self._is_gone(self.history(qualname, parameter)) else None

    def config_of(self, trainer: str) -> str | None:
        """The class that ``trainer``'s ``args=`` are meant to be: ``trl.SFTConfig`` for
        ``trl.SFTTrainer`` and its subclasses, ``transformers.TrainingArguments`` for ``Trainer``;
        None where the target has no such trainer or no config of its own for it."""
        for name in self._order(self.canonical(trainer)):
            if name == "transformers.Trainer":
                return "transformers.TrainingArguments"
            if name == "transformers.Seq2SeqTrainer":
                return "transformers.Seq2SeqTrainingArguments"
            if name.endswith("Trainer"):
                config = f"{name.removesuffix('Trainer')}Config"
                if self.exists(config) and self.is_a(config, "transformers.TrainingArguments"):
                    return self.canonical(config)
        return None

    def successor(
        self, qualname: str, parameter: str | None = None, value: object = Unset
    ) -> Successor | None:
        """What to write instead at the target, from the hand-written knowledge; None where nothing
        is known. ``value``: the literal that is given now, where it is known."""
        from memlint.api.knowledge.choose import successor

        key = (qualname, parameter, "" if value is Unset else repr(value))
        if key not in self._successors:
            self._successors[key] = successor(self, qualname, parameter, value)
        return self._successors[key]

    def warns(
        self, qualname: str, parameter: str, value: object = Unset, beside: Iterable[str] = ()
    ) -> bool:
        """Whether giving ``parameter`` warns of its end at the target.

        value: the literal that is given, where it is known. beside: the call's other options.
        """
        name = self.canonical(qualname)
        signature = self.signature(name)
        if signature is None or parameter not in signature.parameters:
            return False
        lines = [
            line for line in WARNED if line.parameter == parameter and self._holds_for(name, line)
        ]
        if any(value in line.silent_values for line in lines) or any(
            option in line.silent_beside for line in lines for option in beside
        ):
            return False
        return signature.parameters[parameter].deprecated or any(
            not line.values or value in line.values for line in lines
        )

    def deprecated_by(self, qualname: str, parameter: str) -> str:
        """The package whose release warns of ``parameter``: a config of TRL takes fields of
        transformers, which warns of them."""
        name = self.canonical(qualname)
        for line in WARNED:
            if line.parameter == parameter and self._holds_for(name, line):
                return line.package
        history = self.history(name, parameter)
        if history is not None and history.deprecated_since is not None:
            return history.package
        return name.partition(".")[0]

    def ignored(self, qualname: str, parameter: str, value: object = Unset) -> Ignored | None:
        """Why giving ``parameter`` (this ``value`` of it) does nothing at the target; None where it
        does something, or is not accepted at all."""
        from memlint.api.knowledge.ignored import IGNORED, LEFTOVERS
        from memlint.api.knowledge.migrations import Ignored

        name = self.canonical(qualname)
        signature = self.signature(name)
        if signature is None or parameter not in signature.parameters:
            return None
        for line in IGNORED:
            if (
                line.parameter == parameter
                and (not line.values or value in line.values)
                and self._holds_for(name, line)
            ):
                return line
        if parameter in LEFTOVERS and signature.parameters[parameter].ignored:
            package = name.partition(".")[0]
            note = "it is accepted for old scripts and thrown away"
            return Ignored(name, parameter, package, "", "", note, "the tables", harmless=True)
        return None

    def choices(self, qualname: str, parameter: str) -> frozenset[str] | None:
        """The strings that ``parameter`` may be at the target; None where anything goes, or where
        the library's code does not say."""
        from memlint.api.knowledge.choices import READ_ELSEWHERE

        for name in self._order(self.canonical(qualname)):
            option = f"{name}.{parameter}"
            elsewhere = READ_ELSEWHERE.get(option)
            package = (elsewhere or option).partition(".")[0]
            if package not in ("transformers", "accelerate", "trl"):
                continue
            if self.is_beyond_tables(package):
                continue
            record = self._table(f"{package}_values").record(elsewhere or option)
            release = self._release(package)
            found = [
                word
                for text, words in (record or {}).items()
                if holds(text, release)
                for word in words.split()
            ]
            if found:
                return frozenset(found)
        return None

    def refusals(self, qualname: str) -> Iterator[Refusal]:
        """The combinations of options that a class of the target refuses at run time."""
        name = self.canonical(qualname)
        for line in self._refusals:
            if self.is_about(name, line.owner):
                yield line

    @cached_property
    def _refusals(self) -> list[Refusal]:
        """What the target's releases refuse."""
        from memlint.api.knowledge.refusals import REFUSALS

        found = []
        for line in REFUSALS:
            minor = self.version(line.owner.partition(".")[0]).minor
            if (not line.since or parse_version(line.since).minor <= minor) and (
                not line.until or minor < parse_version(line.until).minor
            ):
                found.append(line)
        return found

    def behaviour(self, topic: str) -> str:
        """What the target's libraries do about ``topic`` (``load-dtype``), where no signature
        shows it. Raises KeyError for a topic that nobody wrote down."""
        from memlint.api.knowledge.behaviours import BEHAVIOURS

        answer: str | None = None
        for line in BEHAVIOURS:
            if line.topic == topic and (
                not line.since
                or self.version(line.package).minor >= parse_version(line.since).minor
            ):
                answer = line.answer
        if answer is None:
            raise KeyError(topic)
        return answer

    def family(self, checkpoint: str) -> Family:
        """What the name of a checkpoint says of its model."""
        from memlint.api.knowledge.families import family

        return family(checkpoint)

    def _signature(self, name: str) -> Signature | None:
        record, release = self._present(name)
        if record is not None:
            if "function" in record:
                return self._mended(name, signature_of(parameters(record["function"], release)))
            return self._constructor(name)
        owner, _, method = name.rpartition(".")
        if not owner or owner.partition(".")[0] not in PACKAGES:
            return None
        if self.exists(owner) is False:
            return None
        return self._method(owner, method)

    def _present(self, name: str) -> tuple[Entry | None, int]:
        """Record and release of ``name`` if the target has it."""
        record = self._record(name)
        if record is None:
            return None, 0
        release = self._release(name.partition(".")[0])
        if not holds(record["at"], release):
            return None, 0
        return self._at(name)

    def _constructor(self, name: str) -> Signature | None:
        order = self._order(name)
        for position, owner in enumerate(order):
            record, release = self._at(owner)
            if record is None:
                # A base outside the tables may have a constructor of its own.
                return Signature({}) if owner in WITHOUT_CONSTRUCTOR else None
            init = record.get("init")
            if init is not None and holds(init.get("at", ""), release):
                own = parameters(init, release)
                made = signature_of(own)
                if any(">" in str(facts[0]) for facts in own.values()):
                    made = with_forwarded(made, self._next_constructor(order, position))
                return self._mended(name, made)
            if "dataclass" in record and holds(record["dataclass"], release):
                return self._mended(name, self._signature_of_fields(order[position:]))
        return Signature({}) if order else None

    def _signature_of_fields(self, order: tuple[str, ...]) -> Signature:
        """The constructor of a data class, from its fields and those of its bases."""
        fields: dict[str, list[Any]] = {}
        unknown_base = False
        for base in reversed(order):
            record, release = self._at(base)
            if record is None:
                unknown_base |= base not in PLAIN_BASES
            elif "fields" in record and holds(record.get("dataclass", ""), release):
                fields.update(parameters(record["fields"], release))
        made = signature_of({n: facts for n, facts in fields.items() if "n" not in str(facts[0])})
        # A base that is not described may have fields of its own.
        return made._replace(accepts_any=True) if unknown_base else made

    def _next_constructor(self, order: tuple[str, ...], position: int) -> Signature | None:
        return self._constructor(order[position + 1]) if position + 1 < len(order) else None

    def _method(self, owner: str, method: str) -> Signature | None:
        order = self._order(self.canonical(owner))
        for position, class_name in enumerate(order):
            record, release = self._at(class_name)
            if record is None:
                continue
            facts = record.get("methods", {}).get(method)
            if facts is None or not holds(facts.get("at", ""), release):
                continue
            own = parameters(facts, release)
            made = signature_of(own)
            if any(">" in str(fact[0]) for fact in own.values()) and position + 1 < len(order):
                made = with_forwarded(made, self._method(order[position + 1], method))
            forwarded = FORWARDED.get(method)
            if forwarded is not None and class_name == self.canonical(forwarded.owner):
                made = with_forwarded(made, self.signature(forwarded.to), keep_open=True)
            return self._mended(f"{owner}.{method}", made)
        return None

    def _mended(self, name: str, signature: Signature) -> Signature:
        """``signature`` with what the tables cannot see: defaults that are computed at import, and
        warnings that are given elsewhere."""
        mended: dict[str, Parameter] = {}
        for line in MENDED_DEFAULTS:
            parameter = signature.parameters.get(line.parameter)
            if (
                parameter is not None
                and parameter.default == Expression(line.expression)
                and self.is_a(name, line.owner)
            ):
                mended[line.parameter] = parameter._replace(default=line.at(self))
        for warned in WARNED:
            parameter = signature.parameters.get(warned.parameter)
            if (
                parameter is not None
                and not warned.values
                and not parameter.deprecated
                and self._holds_for(name, warned)
            ):
                mended[warned.parameter] = parameter._replace(deprecated=True)
        if not mended:
            return signature
        return signature._replace(parameters={**signature.parameters, **mended})

    def _holds_for(self, name: str, line: Warned | Ignored) -> bool:
        """Whether ``line`` is about ``name`` at the target."""
        minor = self.version(line.package).minor
        if line.since and minor < parse_version(line.since).minor:
            return False
        if line.until and minor >= parse_version(line.until).minor:
            return False
        return name == line.owner or self.is_about(name, line.owner)
