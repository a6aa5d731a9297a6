"""What a name means at the target: the questions that rules ask of the tables.

Names are qualified names as scripts use them (``trl.SFTConfig``, ``trl.trainer.SFTConfig``,
``transformers.AutoModelForCausalLM.from_pretrained``). Every answer is for the target's versions;
bases and fields are followed from package to package, each at its own version, so that an
``SFTConfig`` of trl 0.15 stands on the ``TrainingArguments`` that the user has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memlint.api.knowledge.defaults import FORWARDED, MENDED_DEFAULTS
from memlint.api.knowledge.warned import WARNED
from memlint.api.signatures import REQUIRED, Expression, History, Kind, Parameter, Signature, Unset
from memlint.api.stand_ins import original_of
from memlint.api.tables import PACKAGES, Record, Table, holds, pick, spans, table
from memlint.api.target import Target, newest
from memlint.api.versions import Version, parse_version

if TYPE_CHECKING:
    from memlint.api.knowledge.lines import Ignored, Warned
    from memlint.api.successors import Successor


class Api:
    """The tables at one target. Answers are kept; asking twice costs nothing."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or newest()
        self._tables: dict[str, Table] = {}
        self._releases: dict[str, int] = {}
        self._canonical: dict[str, str] = {}
        self._signatures: dict[str, Signature | None] = {}
        self._orders: dict[str, tuple[str, ...]] = {}
        self._offered: dict[tuple[str, int], dict[str, str] | None] = {}
        self._attributes: dict[str, frozenset[str] | None] = {}
        self._homes: dict[tuple[str, str], tuple[str, ...]] = {}
        self._successors: dict[tuple[str, str | None, str], Successor | None] = {}

    # Names

    def canonical(self, qualname: str) -> str:
        """The one name of what ``qualname`` imports: ``trl.trainer.sft_config.SFTConfig`` is
        ``trl.SFTConfig``. A name that the target does not have is known by what the newest release
        that has it calls it; an unknown name is returned as it is. The runtime's trainers take
        TRL's place, arguments and all: they go by TRL's names."""
        known = self._canonical.get(qualname)
        if known is None:
            known = self._canonical[qualname] = self._follow(original_of(qualname), 4)
        return known

    def exists(self, qualname: str) -> bool | None:
        """Whether ``qualname`` can be imported (or, for a class's attribute, read) at the target.

        None where the tables do not say: another package, or a module whose names cannot be read
        off its source.
        """
        package = qualname.partition(".")[0]
        if package not in PACKAGES:
            return None
        module, rest = self._split(qualname)
        if not rest:
            return True
        first, _, more = rest.partition(".")
        record = self._module(module)
        assert record is not None
        release = self._release(package)
        names = self._names(module, release)
        if names is None or first not in names:
            if self._dynamic(record, release, first) or self._stands_in(package, first, names):
                return None
            return False
        if not more:
            return True
        known = self.canonical(f"{module}.{first}")
        if known.partition(".")[0] not in PACKAGES:
            return None
        attributes = self.attributes(known)
        if "." in more:
            return None
        if attributes is None:
            return False if self._is_gone(self._attribute_history(known, more)) else None
        return more in attributes

    def _stands_in(self, package: str, name: str, names: Mapping[str, str] | None) -> bool:
        """Whether transformers 5 may answer for a name that its modules do not have: tokenizers
        and image processors by their old names, modules by aliases (utils/import_utils.py)."""
        if package != "transformers" or self.version(package).minor < (5, 0):
            return False
        if name in _ALIASED_MODULES or name.endswith(("Tokenizer", "TokenizerFast")):
            return True
        return name.endswith("ImageProcessorFast") and name[:-4] in (names or {})

    # Classes and functions

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
        return _made(parameters(record["function"], release))

    def bases(self, qualname: str) -> tuple[str, ...]:
        """Canonical names of all base classes, nearest first. A class that the target does not
        have is answered for by the newest release that has it."""
        return self._order(self.canonical(qualname))[1:]

    def is_a(self, qualname: str, *ancestors: str) -> bool:
        """Whether ``qualname`` is one of ``ancestors`` or a subclass of one."""
        order = self._order(self.canonical(qualname))
        return any(self.canonical(ancestor) in order for ancestor in ancestors)

    def is_about(self, name: str, owner: str) -> bool:
        """Whether what is known of ``owner`` holds for ``name``: the same, a subclass of it, or the
        same method of a subclass."""
        if name == owner:
            return True
        class_name, _, member = name.rpartition(".")
        owner_class, _, owner_member = owner.rpartition(".")
        if member == owner_member and "." in owner_class and self.is_a(class_name, owner_class):
            return True
        return self.is_a(name, owner)

    def attributes(self, qualname: str) -> frozenset[str] | None:
        """Methods, fields and attributes that instances of the class have at the target; None
        where that cannot be known (``__getattr__``, a base outside the tables)."""
        name = self.canonical(qualname)
        if name not in self._attributes:
            self._attributes[name] = self._read_attributes(name)
        return self._attributes[name]

    def _read_attributes(self, qualname: str) -> frozenset[str] | None:
        order = self._order(qualname)
        found: set[str] = set()
        for name in order:
            record, release = self._at(name)
            if record is None or "bases" not in record:
                if name in _PLAIN_BASES:
                    continue
                return None
            if "open" in record and holds(record["open"], release):
                return None
            if "fields" in record:
                found.update(parameters(record["fields"], release))
            for method, facts in record.get("methods", {}).items():
                if holds(facts.get("at", ""), release):
                    found.add(method)
            for text, names in record.get("attributes", {}).items():
                if holds(text, release):
                    found.update(names.split())
        return frozenset(found) if found else None

    def default(self, qualname: str, parameter: str) -> object:
        """The default of ``parameter`` at the target. Raises KeyError where there is none such."""
        signature = self.signature(qualname)
        if signature is None or parameter not in signature.parameters:
            raise KeyError(f"{qualname} has no parameter {parameter!r} at {self.target}")
        return signature.parameters[parameter].default

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
                self._name_history(qualname)
                or self._name_history(name)
                or (self._attribute_history(owner, attribute) if owner else None)
            )
        gone: History | None = None
        here: History | None = None
        for owner, record, method in self._owners(name):
            package = owner.partition(".")[0]
            found = _parameter_ranges(record, method, parameter)
            if found:
                history = _history(self._table(package), package, *found)
                if self._is_gone(history):
                    # An override that came and went says nothing of the field that it overrode.
                    gone = gone or history
                else:
                    # The deepest base has had it longest.
                    here = history
        history_found = here or gone
        if history_found is not None and history_found.deprecated_since is None:
            for line in WARNED:
                if (
                    line.parameter == parameter
                    and not line.values
                    and self.is_about(name, line.owner)
                ):
                    return history_found._replace(deprecated_since=line.since)
        return history_found

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

    def warns(self, qualname: str, parameter: str, value: object = Unset) -> bool:
        """Whether giving ``parameter`` (this ``value`` of it) warns of its end at the target."""
        name = self.canonical(qualname)
        signature = self.signature(name)
        if signature is None or parameter not in signature.parameters:
            return False
        return signature.parameters[parameter].deprecated or any(
            line.parameter == parameter
            and (not line.values or value in line.values)
            and self._holds_for(name, line)
            for line in WARNED
        )

    def ignored(self, qualname: str, parameter: str, value: object = Unset) -> Ignored | None:
        """Why giving ``parameter`` (this ``value`` of it) does nothing at the target; None where it
        does something, or is not accepted at all."""
        from memlint.api.knowledge.ignored import IGNORED, LEFTOVERS
        from memlint.api.knowledge.lines import Ignored

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

    def homes(self, package: str, name: str) -> tuple[str, ...]:
        """Full names of the definitions called ``name`` that modules of ``package`` are home to at
        the target."""
        key = (package, name)
        if key not in self._homes:
            release = self._release(package)
            self._homes[key] = tuple(
                sorted(
                    f"{module}.{name}"
                    for module in set(self._table(package).modules_with(name))
                    if (self._names(module, release) or {}).get(name) == ""
                )
            )
        return self._homes[key]

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

    def version(self, package: str) -> Version:
        """The target's version of ``package``, comparable."""
        return parse_version(self.target.version(package).version)

    # Records

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = table(name)
        return self._tables[name]

    def _release(self, package: str) -> int:
        if package not in self._releases:
            version = self.target.version(package).version
            self._releases[package] = self._table(package).release(version)
        return self._releases[package]

    def _record(self, name: str) -> Record | None:
        package = name.partition(".")[0].rstrip(":")
        if package not in PACKAGES:
            return None
        return self._table(package).record(name)

    def _module(self, module: str) -> Record | None:
        record = self._record(f"{module}:")
        if record is None and module.startswith("transformers.models."):
            record = self._table("transformers_models").record(f"{module}:")
        return record

    def _at(self, name: str) -> tuple[Record | None, int]:
        """The record of a class or function and the release to read it at: the target's, or the
        newest that has it. A name that stands for another in that release leads to that one."""
        record = self._record(name)
        if record is None:
            return None, 0
        package = name.partition(".")[0]
        release = _within(record["at"], self._release(package), len(self._table(package).releases))
        same = pick(record["same"], release) if "same" in record else None
        if same is not None and same != name:
            return self._at(same)
        return record, release

    def _names(self, module: str, release: int) -> dict[str, str] | None:
        """Name -> where it leads, for the names that ``module`` offers in ``release``."""
        key = (module, release)
        if key not in self._offered:
            record = self._module(module)
            if record is None or not holds(record["at"], release):
                self._offered[key] = None
            else:
                offered: dict[str, str] = {}
                for text, words in record["names"].items():
                    if holds(text, release):
                        for word in words.split():
                            name, _, leads = word.partition("=")
                            offered[name] = leads
                self._offered[key] = offered
        return self._offered[key]

    def _split(self, qualname: str) -> tuple[str, str]:
        """The longest module of the target that ``qualname`` begins with, and the rest."""
        parts = qualname.split(".")
        release = self._release(parts[0])
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            record = self._module(module)
            if record is not None and holds(record["at"], release):
                return module, ".".join(parts[length:])
        raise AssertionError(f"the table of {parts[0]} lacks the package itself")

    @staticmethod
    def _dynamic(record: Record, release: int, name: str) -> bool:
        if "open" in record and holds(record["open"], release):
            return True
        return any(
            name in words.split()
            for text, words in record.get("unread", {}).items()
            if holds(text, release)
        )

    def _follow(self, qualname: str, depth: int) -> str:
        parts = qualname.split(".")
        package = parts[0]
        if package not in PACKAGES or len(parts) < 2 or not depth:
            return qualname
        target = self._release(package)
        for length in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:length])
            record = self._module(module)
            if record is None:
                continue
            name, rest = parts[length], parts[length + 1 :]
            leads = (self._names(module, target) or {}).get(name)
            if leads is None:
                leads = _newest_lead(record, name)
            if leads is None:
                continue
            if leads == "":
                return qualname
            head = f"{package}.{name}" if leads == "^" else leads
            return self._follow(".".join([head, *rest]), depth - 1)
        return qualname

    def _order(self, name: str) -> tuple[str, ...]:
        """Method resolution order, ``name`` first."""
        if name not in self._orders:
            self._orders[name] = (name,)  # a cycle ends here
            self._orders[name] = tuple(self._linearized(name))
        return self._orders[name]

    def _linearized(self, name: str) -> list[str]:
        bases = self._direct_bases(name)
        return [name, *_merge([list(self._order(base)) for base in bases] + [list(bases)])]

    def _direct_bases(self, name: str) -> tuple[str, ...]:
        record = self._record(name)
        if record is not None and "same" in record:
            package = name.partition(".")[0]
            release = _within(
                record["at"], self._release(package), len(self._table(package).releases)
            )
            same = pick(record["same"], release)
            if same is not None and same != name:
                return (same,)
        record, release = self._at(name)
        if record is not None and "bases" in record:
            written: str = pick(record["bases"], release) or ""
            return tuple(self.canonical(base) for base in written.split())
        package, _, rest = name.partition(".")
        if package == "transformers" and rest and "." not in rest:
            families = self._table(package).record("transformers families") or {}
            release = self._release(package)
            fallback: str | None = None
            for family, ranges in families.items():
                for text, words in ranges.items():
                    if f" {rest} " in f" {words} ":
                        if holds(text, release):
                            return tuple(self.canonical(base) for base in family.split(","))
                        fallback = family
            if fallback is not None:
                return tuple(self.canonical(base) for base in fallback.split(","))
        return ()

    def _owners(self, name: str) -> Iterator[tuple[str, Record, str | None]]:
        """Records that may hold a parameter of ``name``: owner, record, method."""
        record = self._record(name)
        if record is not None:
            for owner in self._order(name):
                found, _ = self._at(owner)
                if found is not None:
                    yield owner, found, None
            return
        owner, _, method = name.rpartition(".")
        for class_name in self._order(owner) if owner else ():
            found, _ = self._at(class_name)
            if found is not None:
                yield class_name, found, method
        forwarded = FORWARDED.get(method) if owner else None
        if forwarded is not None and self.is_a(owner, forwarded.owner):
            yield from self._owners(forwarded.to)

    def _is_gone(self, history: History | None) -> bool:
        """Whether the target has outlived what ``history`` tells of."""
        if history is None or history.package not in PACKAGES:
            return False
        minor = self._table(history.package).minor(self._release(history.package))
        here = parse_version(minor)
        return not any(
            (since is None or parse_version(since) <= here)
            and (until is None or here < parse_version(until))
            for since, until in history.ranges
        ) and any(until is not None and parse_version(until) <= here for _, until in history.ranges)

    def _attribute_history(self, owner: str, attribute: str) -> History | None:
        """History of an attribute, in the package of the nearest class that ever had it."""
        package = ""
        present: list[str] = []
        deprecated: list[str] = []
        for class_name in self._order(self.canonical(owner)):
            home = class_name.partition(".")[0]
            record = self._record(class_name)
            if record is None or "bases" not in record or (package and home != package):
                continue
            found: list[str] = []
            method = record.get("methods", {}).get(attribute)
            if method is not None:
                found.append(method.get("at", record["at"]))
                if "deprecated" in method:
                    deprecated.append(method["deprecated"])
            for text, words in record.get("attributes", {}).items():
                if attribute in words.split():
                    found.append(text or record["at"])
            fields = record.get("fields", {}).get("p", {}).get(attribute, {})
            found.extend(text or record["at"] for text in fields)
            if found:
                package = home
                present.extend(found)
        if not present:
            return None
        return _history(self._table(package), package, present, deprecated)

    def _name_history(self, qualname: str) -> History | None:
        package = qualname.partition(".")[0]
        if package not in PACKAGES:
            return None
        module, _, name = qualname.rpartition(".")
        record = self._module(qualname)
        if record is not None:
            return _history(self._table(package), package, [record["at"]], [])
        record = self._module(module) if module else None
        if record is None:
            return None
        present = [
            text or record["at"]
            for text, words in record["names"].items()
            if any(word.partition("=")[0] == name for word in words.split())
        ]
        if not present:
            return None
        own = self._record(self.canonical(qualname))
        facts = (own or {}).get("function", own or {})
        deprecated = [facts["deprecated"]] if "deprecated" in facts else []
        return _history(self._table(package), package, present, deprecated)

    # Signatures

    def _signature(self, name: str) -> Signature | None:
        record, release = self._present(name)
        if record is not None:
            if "function" in record:
                return self._mended(name, _made(parameters(record["function"], release)))
            return self._constructor(name)
        owner, _, method = name.rpartition(".")
        if not owner or owner.partition(".")[0] not in PACKAGES:
            return None
        if self.exists(owner) is False:
            return None
        return self._method(owner, method)

    def _present(self, name: str) -> tuple[Record | None, int]:
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
                return Signature({}) if owner in _WITHOUT_CONSTRUCTOR else None
            init = record.get("init")
            if init is not None and holds(init.get("at", ""), release):
                own = parameters(init, release)
                made = _made(own)
                if any(">" in str(facts[0]) for facts in own.values()):
                    made = _forwarded(made, self._next_constructor(order, position))
                return self._mended(name, made)
            if "dataclass" in record and holds(record["dataclass"], release):
                fields: dict[str, list[Any]] = {}
                unknown_base = False
                for base in reversed(order[position:]):
                    record, release = self._at(base)
                    if record is None:
                        unknown_base |= base not in _PLAIN_BASES
                    elif "fields" in record and holds(record.get("dataclass", ""), release):
                        fields.update(parameters(record["fields"], release))
                accepted = {n: facts for n, facts in fields.items() if "n" not in str(facts[0])}
                made = _made(accepted)
                if unknown_base:
                    # A base that is not described may have fields of its own.
                    made = made._replace(accepts_any=True)
                return self._mended(name, made)
        return Signature({}) if order else None

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
            made = _made(own)
            if any(">" in str(fact[0]) for fact in own.values()) and position + 1 < len(order):
                made = _forwarded(made, self._method(order[position + 1], method))
            forwarded = FORWARDED.get(method)
            if forwarded is not None and class_name == self.canonical(forwarded.owner):
                made = _forwarded(made, self.signature(forwarded.to), keep_open=True)
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


_ALIASED_MODULES = frozenset({"tokenization_utils", "tokenization_utils_fast"})

# Bases outside the tables whose constructor takes nothing.
_WITHOUT_CONSTRUCTOR = frozenset(
    {"abc.ABC", "ABC", "typing.Generic", "Generic", "typing.Protocol", "Protocol"}
)

# Bases outside the tables that add nothing an instance is asked for.
_PLAIN_BASES = _WITHOUT_CONSTRUCTOR | {
    "dict",
    "list",
    "str",
    "collections.OrderedDict",
    "collections.UserDict",
    "collections.abc.MutableMapping",
    "enum.Enum",
}


def parameters(facts: Mapping[str, Any], release: int) -> dict[str, list[Any]]:
    """Name -> ``[flags]`` or ``[flags, default]`` in the order of ``release``."""
    found: dict[str, list[Any]] = {}
    for name, histories in facts["p"].items():
        value = pick(histories, release)
        if value is not None:
            found[name] = value
    if "order" in facts:
        order = pick(facts["order"], release)
        if order is not None:
            return {name: found[name] for name in order.split()}
    return found


def _made(facts: Mapping[str, list[Any]]) -> Signature:
    result: dict[str, Parameter] = {}
    accepts_any = accepts_more = False
    for name, value in facts.items():
        flags: str = value[0]
        if "**" in flags:
            accepts_any = True
        elif "*" in flags:
            accepts_more = True
        else:
            kind = Kind.POSITIONAL
            if "k" in flags:
                kind = Kind.KEYWORD
            elif "p" in flags:
                kind = Kind.POSITIONAL_ONLY
            default = _default(value[1]) if len(value) > 1 else REQUIRED
            result[name] = Parameter(name, default, kind, "d" in flags, "i" in flags)
    return Signature(result, accepts_any, accepts_more)


def _default(value: Any) -> object:
    match value:
        case {"e": str(text)} if len(value) == 1:
            return Expression(text)
        case {"t": list(parts)} if len(value) == 1:
            return tuple(_default(part) for part in parts)
        case list():
            return [_default(part) for part in value]
        case dict():
            return {key: _default(part) for key, part in value.items()}
        case _:
            return value


def _forwarded(own: Signature, base: Signature | None, *, keep_open: bool = False) -> Signature:
    """``own``, whose ``**kwargs`` go to ``base``."""
    if base is None:
        return own
    added = {
        name: parameter._replace(kind=Kind.KEYWORD)
        for name, parameter in base.parameters.items()
        if name not in own.parameters
    }
    return Signature({**own.parameters, **added}, base.accepts_any or keep_open, own.accepts_more)


def _within(text: str, release: int, count: int) -> int:
    """``release``, or the newest release in the range ``text`` where it is not in it."""
    if holds(text, release):
        return release
    return min(max(high for _, high in spans(text)), count - 1)


def _newest_lead(record: Record, name: str) -> str | None:
    """Where ``name`` led in the newest release in which the module offered it."""
    best: tuple[int, str] | None = None
    for text, words in record["names"].items():
        if name not in words:
            continue
        for word in words.split():
            own, _, leads = word.partition("=")
            if own == name:
                last = max(high for _, high in spans(text or record["at"]))
                if best is None or last > best[0]:
                    best = last, leads
    return best[1] if best is not None else None


def _merge(lists: list[list[str]]) -> list[str]:
    """C3 linearization; where it fails, the first candidate is taken."""
    result: list[str] = []
    lists = [part for part in lists if part]
    while lists:
        candidate = next(
            (part[0] for part in lists if not any(part[0] in other[1:] for other in lists)),
            lists[0][0],
        )
        result.append(candidate)
        lists = [rest for part in lists if (rest := [name for name in part if name != candidate])]
    return result


def _parameter_ranges(
    record: Record, method: str | None, parameter: str
) -> tuple[list[str], list[str]] | None:
    """Ranges in which ``parameter`` is there, and in which it is deprecated."""
    if method is not None:
        groups = [record.get("methods", {}).get(method)]
    else:
        groups = [record.get("function"), record.get("fields"), record.get("init")]
    present: list[str] = []
    deprecated: list[str] = []
    for facts in groups:
        if facts is None:
            continue
        within = facts.get("at", record["at"])
        for text, value in facts["p"].get(parameter, {}).items():
            present.append(text or within)
            if "d" in value[0]:
                deprecated.append(text or within)
    return (present, deprecated) if present else None


def _history(known: Table, package: str, present: list[str], deprecated: list[str]) -> History:
    newest_release = len(known.releases) - 1
    intervals = sorted(
        (low, min(high, newest_release)) for text in present for low, high in spans(text)
    )
    joined: list[tuple[int, int]] = []
    for low, high in intervals:
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))

    def named(low: int, high: int) -> tuple[str | None, str | None]:
        return (
            known.minor(low) if low else None,
            known.minor(high + 1) if high < newest_release else None,
        )

    warned = [
        low
        for text in deprecated
        for low, high in spans(text)
        if min(high, newest_release) == joined[-1][1]  # what no longer warns was never going
    ]
    return History(
        package=package,
        since=named(*joined[0])[0],
        until=named(*joined[-1])[1],
        deprecated_since=known.minor(min(warned)) if warned else None,
        ranges=tuple(named(low, high) for low, high in joined),
    )
