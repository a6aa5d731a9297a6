"""What a name means at the target: the questions that rules ask of the tables.

Names are qualified names as scripts use them (``trl.SFTConfig``, ``trl.trainer.SFTConfig``,
``transformers.AutoModelForCausalLM.from_pretrained``). Every answer is for the target's versions;
bases and fields are followed from package to package, each at its own version, so that an
``SFTConfig`` of trl 0.15 stands on the ``TrainingArguments`` that the user has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from typing import TYPE_CHECKING

from memlint.api import classes, constructors, histories, qualified_names
from memlint.api.drop_ins import original_of
from memlint.api.knowledge.defaults import COMPUTED_DEFAULTS, FORWARDED
from memlint.api.knowledge.warned import WARNED
from memlint.api.records import linearize, parameters, signature_of
from memlint.api.releases import Releases
from memlint.api.signatures import Expression, Kind, Parameter, Signature, Unset
from memlint.api.tables import PACKAGES, pick
from memlint.api.target_versions import Target, newest
from memlint.api.versions import Version, is_between
from memlint.source.kept import kept

if TYPE_CHECKING:
    from memlint.api.histories import Owner
    from memlint.api.knowledge.families import Family
    from memlint.api.knowledge.migrations import Ignored, Warned
    from memlint.api.refusals import Refusal
    from memlint.api.signatures import History
    from memlint.api.successors import Successor


class Api:
    """The tables at one target. Answers are kept; asking twice costs nothing."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or newest()
        self._releases = Releases(self.target)
        self._orders: dict[str, tuple[str, ...]] = {}
        self._successors: dict[tuple[str, str | None, str], Successor | None] = {}

    def version(self, package: str) -> Version:
        """Return the target's version of ``package``, comparable."""
        return self._releases.version(package)

    def at_target(self, qualname: str) -> str:
        """Return the package of a name and its version at the target: ``trl 1.2``."""
        package = qualname.partition(".")[0]
        return f"{package} {self.target.version(package).version}"

    def first_release(self, package: str) -> str:
        """Return the oldest minor version of ``package`` that the tables describe."""
        return self._releases.table(package).minor(0)

    def is_beyond_tables(self, package: str) -> bool:
        """True if the target's ``package`` is newer than all releases that the tables describe."""
        return self._releases.is_beyond(package)

    @kept
    def canonical(self, qualname: str) -> str:
        """Return the canonical name of ``qualname``: ``trl.trainer.sft_config.SFTConfig`` is
        ``trl.SFTConfig``. A name that the target does not have is known by what the newest release
        that has it calls it; an unknown name is returned as it is. The runtime's trainers take
        TRL's place, arguments and all: they go by TRL's names."""
        return qualified_names.followed(self._releases, original_of(qualname))

    @kept
    def homes(self, package: str, name: str) -> tuple[str, ...]:
        """Full names of the definitions called ``name`` in modules of ``package`` at the target."""
        return qualified_names.homes(self._releases, package, name)

    def offered(self, module: str) -> tuple[str, ...]:
        """The names that can be imported from a module of the target; none where it is missing."""
        return tuple(self._releases.names(module) or ())

    @kept
    def exists(self, qualname: str) -> bool | None:
        """True if ``qualname`` can be imported (or, for a class's attribute, read) at the target.

        None where the tables do not say: another package, or a module whose names cannot be read
        off its source.
        """
        if qualname.partition(".")[0] not in PACKAGES:
            return None
        module, name, attribute = qualified_names.split(self._releases, qualname)
        if not name:
            return True
        is_offered = qualified_names.is_offered(self._releases, module, name)
        if not is_offered or not attribute:
            return is_offered
        owner = self.canonical(f"{module}.{name}")
        if owner.partition(".")[0] not in PACKAGES or "." in attribute:
            return None
        attributes = self.attributes(owner)
        if attributes is None:
            return False if self._is_gone(self._attribute_history(owner, attribute)) else None
        return attribute in attributes

    def bases(self, qualname: str) -> tuple[str, ...]:
        """Canonical names of all base classes, nearest first. A class that the target does not
        have is answered for by the newest release that has it."""
        return self._order(self.canonical(qualname))[1:]

    def is_a(self, qualname: str, *ancestors: str) -> bool:
        """True if ``qualname`` is one of ``ancestors`` or a subclass of one."""
        order = self._order(self.canonical(qualname))
        return any(self.canonical(ancestor) in order for ancestor in ancestors)

    @kept
    def is_about(self, name: str, owner: str) -> bool:
        """True if what is known of ``owner`` holds for ``name``: the same or a subclass's."""
        if name == owner or self.canonical(owner) in self._order(self.canonical(name)):
            return True
        class_name, _, member = name.rpartition(".")
        owner_class, _, owner_member = owner.rpartition(".")
        return member == owner_member and "." in owner_class and self.is_a(class_name, owner_class)

    @kept
    def attributes(self, qualname: str) -> frozenset[str] | None:
        """Methods, fields and attributes that instances of the class have at the target; None
        where that cannot be known (``__getattr__``, a base outside the tables)."""
        return classes.attributes(self._releases, self._order(self.canonical(qualname)))

    def _order(self, name: str) -> tuple[str, ...]:
        """Method resolution order, ``name`` first."""
        if name not in self._orders:
            self._orders[name] = (name,)  # a cycle ends here
            same = self._releases.same(name)
            if same is not None and same != name:
                bases = [same]
            else:
                written = classes.written_bases(self._releases, name)
                bases = [self.canonical(base) for base in written]
            above = linearize([*(list(self._order(base)) for base in bases), bases])
            self._orders[name] = (name, *above)
        return self._orders[name]

    def history(self, qualname: str, parameter: str | None = None) -> History | None:
        """Since and until when ``qualname``, or its ``parameter``, is there in all releases known.

        ``qualname`` may be an attribute or method of a class too.
        A parameter is looked for in the class, then in its bases; the answer's ``package`` says
        whose versions it speaks of.
        """
        name = self.canonical(qualname)
        if parameter is None:
            owner, _, attribute = name.rpartition(".")
            return (
                histories.name_history(self._releases, qualname, name)
                or histories.name_history(self._releases, name, name)
                or (self._attribute_history(owner, attribute) if owner else None)
            )
        history = histories.parameter_history(self._releases, self._owners(name), parameter)
        if history is None or history.deprecated_since is not None:
            return history
        warned = self._warned_since(name, parameter)
        return history if warned is None else history._replace(deprecated_since=warned)

    def _attribute_history(self, owner: str, attribute: str) -> History | None:
        order = self._order(self.canonical(owner))
        return histories.attribute_history(self._releases, order, attribute)

    def _is_gone(self, history: History | None) -> bool:
        return histories.is_gone(self._releases, history)

    def _warned_since(self, name: str, parameter: str) -> str | None:
        """Since when a use of ``parameter`` warns, where no signature shows it."""
        for line in WARNED:
            if line.parameter == parameter and not line.values and self.is_about(name, line.owner):
                return line.since
        return None

    def _owners(self, name: str) -> Iterator[Owner]:
        """Yield the callables that may have a parameter of ``name``."""
        if self._releases.record(name) is not None:
            owner, method = name, None
        else:
            owner, _, method = name.rpartition(".")
        for class_name in self._order(owner) if owner else ():
            record, _ = self._releases.at(class_name)
            if record is not None:
                yield class_name, record, method
        forwarded = FORWARDED.get(method) if owner and method else None
        if forwarded is not None and self.is_a(owner, forwarded[0]):
            yield from self._owners(forwarded[1])

    def signature(self, qualname: str) -> Signature | None:
        """Parameters of a function, a method (``trl.SFTTrainer.train``) or a class's constructor;
        None where the target does not have it or the tables do not describe it."""
        return self._signature(self.canonical(qualname))

    @kept
    def positions(self, qualname: str) -> tuple[str, ...]:
        """Names of the parameters of a signature that can be given by position, in order."""
        signature = self.signature(qualname)
        return signature.positional if signature is not None else ()

    def last_signature(self, qualname: str) -> Signature | None:
        """That of a function, in the newest release that has it where the target has not."""
        record, release = self._releases.at(self.canonical(qualname))
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
        """True if a call at the target takes the keyword ``parameter``.

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
        if not self._is_gone(self.history(qualname, parameter)):
            return None
        from memlint.api.knowledge.ignored import SWALLOWING

        name = self.canonical(qualname)
        return None if any(self.is_about(name, owner) for owner in SWALLOWING) else False

    @cached_property
    def of_newest(self) -> Api:
        """The tables at the newest releases, on which the runtime builds."""
        return Api(newest())

    def config_of(self, trainer: str) -> str | None:
        """Return the class that ``trainer``'s ``args=`` are meant to be: ``trl.SFTConfig`` for
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
        from memlint.api.successions import successor

        key = (qualname, parameter, "" if value is Unset else repr(value))
        if key not in self._successors:
            self._successors[key] = successor(self, qualname, parameter, value)
        return self._successors[key]

    def warns(
        self, qualname: str, parameter: str, value: object = Unset, *, beside: Iterable[str] = ()
    ) -> bool:
        """True if giving ``parameter`` warns of its end at the target.

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
        """Return the package whose release warns of ``parameter``: a config of TRL takes fields of
        transformers, which warns of them."""
        name = self.canonical(qualname)
        for line in WARNED:
            if line.parameter == parameter and self._holds_for(name, line):
                return line.owner.partition(".")[0]
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
        taken = signature.parameters.get(parameter) if signature is not None else None
        if signature is None or (taken is None and not signature.accepts_any):
            return None
        for line in IGNORED:
            if (
                line.parameter == parameter
                and (not line.values or value in line.values)
                and self._holds_for(name, line)
            ):
                return line
        if parameter in LEFTOVERS and taken is not None and taken.ignored:
            note = "it is accepted for old scripts and thrown away"
            return Ignored(name, parameter, (), "", "", note, harmless=True)
        return None

    @kept
    def is_plain(self, qualname: str, parameter: str) -> bool:
        """True if ``parameter`` is valid at the target and no table says more of it: no
        ``successor``, nothing that ``warns``, is ``ignored`` or has fixed ``choices``."""
        if self.accepts(qualname, parameter) is False or parameter in self._spoken_of:
            return False
        signature = self.signature(qualname)
        taken = signature.parameters.get(parameter) if signature is not None else None
        if taken is not None and taken.deprecated:
            return False
        return self.choices(qualname, parameter) is None

    @cached_property
    def _spoken_of(self) -> frozenset[str | None]:
        """Return the options that the knowledge tables mention, for any class."""
        from memlint.api.knowledge.gone import MIGRATIONS
        from memlint.api.knowledge.ignored import IGNORED, LEFTOVERS

        migrated = {line.parameter for line in MIGRATIONS}
        warned = {line.parameter for line in WARNED}
        return LEFTOVERS.union(migrated, warned, (line.parameter for line in IGNORED))

    def choices(self, qualname: str, parameter: str) -> frozenset[str] | None:
        """The strings that ``parameter`` may be at the target; None where nobody can tell."""
        from memlint.api.choices import choices

        return choices(self._releases, self._order(self.canonical(qualname)), parameter)

    def gone_values(self, qualname: str, parameter: str) -> frozenset[str]:
        """The strings, in capitals, that ``parameter`` could be once and cannot at the target."""
        from memlint.api.choices import gone_values

        return gone_values(self._releases, self._order(self.canonical(qualname)), parameter)

    def settle(self, qualname: str, read: Callable[[str], object]) -> dict[str, object]:
        """What an instance of a configuration class makes of its options: those that it assigns
        once it has them all. read: an option as it was given, or its default; ``OPEN`` where that
        cannot be told, as the answer's values may be."""
        from memlint.api.knowledge.defaults import SETTLED
        from memlint.api.settled import settle

        codes = []
        for name in self._order(self.canonical(qualname)):
            record, release = self._releases.at(name)
            code = pick((record or {}).get("settled", {}), release) or SETTLED.get(name)
            codes += [code] if code else []
        return settle(codes, read) if codes else {}

    def refusals(self, qualname: str) -> list[Refusal]:
        """Return the options and arguments that a class of the target refuses together."""
        from memlint.api.knowledge.refused_options import REFUSALS

        name = self.canonical(qualname)
        package = name.partition(".")[0] if name.endswith("Trainer") else ""
        return [
            line
            for line in REFUSALS
            if (line.owner == package or self.is_about(name, line.owner))
            and is_between(self.version(line.owner.partition(".")[0]), line.since, line.until)
        ]

    def behaviour(self, topic: str) -> str:
        """What the target's libraries do about ``topic`` (``load-dtype``), where no signature
        shows it. Raises KeyError for a topic that nobody wrote down."""
        from memlint.api.knowledge.behaviours import BEHAVIOURS

        package, answers = BEHAVIOURS[topic]
        version = self.version(package)
        return [a for since, a in answers.items() if is_between(version, since, "")][-1]

    def family(self, checkpoint: str | None) -> Family:
        """Return the family of a checkpoint's model by its name; one without traits for None."""
        from memlint.api.knowledge.families import family

        return family(checkpoint or "")

    @kept
    def _signature(self, name: str) -> Signature | None:
        record, release = self._releases.present(name)
        signature: Signature | None
        if record is not None and "function" in record:
            signature = signature_of(parameters(record["function"], release))
        elif record is not None:
            signature = constructors.constructor(self._releases, self._order(name))
        else:
            signature = self._method(name)
        return None if signature is None else self._corrected(name, signature)

    def _method(self, name: str) -> Signature | None:
        owner, _, method = name.rpartition(".")
        if not owner or owner.partition(".")[0] not in PACKAGES or self.exists(owner) is False:
            return None
        order = self._order(self.canonical(owner))
        forwarded = FORWARDED.get(method)
        if forwarded is None or self.canonical(forwarded[0]) not in order:
            return constructors.method(self._releases, order, method)
        target = self.canonical(forwarded[0]), self.signature(forwarded[1])
        return constructors.method(self._releases, order, method, target)

    def _corrected(self, name: str, signature: Signature) -> Signature:
        """``signature`` with what the tables cannot see: defaults that are computed at import, and
        warnings that are given elsewhere."""
        corrected: dict[str, Parameter] = {}
        for line in COMPUTED_DEFAULTS:
            parameter = signature.parameters.get(line.parameter)
            if (
                parameter is not None
                and parameter.default == Expression(line.expression)
                and self.is_a(name, line.owner)
            ):
                met = all(self.version(package).minor >= since for package, since in line.needs)
                default = line.value if met else line.otherwise
                corrected[line.parameter] = parameter._replace(default=default)
        for warned in WARNED:
            parameter = signature.parameters.get(warned.parameter)
            if (
                parameter is not None
                and not warned.values
                and not parameter.deprecated
                and self._holds_for(name, warned)
            ):
                corrected[warned.parameter] = parameter._replace(deprecated=True)
        if not corrected:
            return signature
        return signature._replace(parameters={**signature.parameters, **corrected})

    def _holds_for(self, name: str, line: Warned | Ignored) -> bool:
        """True if ``line`` is about ``name`` at the target."""
        version = self.version(line.owner.partition(".")[0])
        return is_between(version, line.since, line.until) and self.is_about(name, line.owner)


@cache
def newest_tables() -> Api:
    """Return the tables at the newest releases, whose answers are kept for all who ask."""
    return Api(newest())
