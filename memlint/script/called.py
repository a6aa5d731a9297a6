"""A script with its calls as rules see them: one per place, all its evaluations joined."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property
from operator import attrgetter
from typing import Self, TypeVar

from memlint.api.lookup import Api
from memlint.api.signatures import Expression
from memlint.engine.answers import all_of
from memlint.engine.constants import MISSING, UNSURE, unified
from memlint.engine.forwards import ForwardRun
from memlint.engine.groups import takes_all
from memlint.engine.growth import stores_in
from memlint.engine.guards import answers_around, is_off_by_default
from memlint.engine.interpreter import Interpreter
from memlint.engine.modes import in_evaluation_hook
from memlint.engine.nodes import (
    CallNode,
    ClassNode,
    ImportName,
    ImportNode,
    Keyword,
    Module,
    Node,
    call_itself,
)
from memlint.engine.project import is_elsewhere
from memlint.engine.values import (
    ABSENT,
    Binding,
    How,
    Invocation,
    Object,
    Provenance,
    Value,
    merge,
    merge_bindings,
)
from memlint.flow.evaluated import Evaluated
from memlint.script.call_settings import Setting, setting_of
from memlint.script.launcher import Launcher
from memlint.source import Source, Span

Made = TypeVar("Made")


_order = attrgetter("order")


class Call:
    """A call at one place.

    name: canonical qualified name of the callee (``trl.SFTConfig``,
        ``transformers.AutoModelForCausalLM.from_pretrained``); for a subclass that the script
        defines, the library class; ``?.method`` for a method of something unknown.
    """

    def __init__(self, script: Called, invocations: list[Invocation]) -> None:
        self.script = script
        self.invocations = invocations
        self.node = invocations[0].node
        self.name = script.api.canonical(invocations[0].name)
        self._settings: dict[str, Setting] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} line {self.node.lineno}>"

    def as_call_of(self, name: str) -> Self:
        """The same call with another callee: what took the place of one that is gone."""
        made = copy(self)
        made.name = name
        made._settings = {}
        for known in ("positions", "_all_settings", "_notable_settings"):
            vars(made).pop(known, None)
        return made

    @property
    def span(self) -> Span:
        return self.script.span(self.node)

    @property
    def method(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def conditional(self) -> bool:
        """True if an undecided condition guards it."""
        return any(invocation.conditional for invocation in self.invocations)

    @property
    def in_loop(self) -> bool:
        """True if a loop repeats it (in this function or one that calls it)."""
        return any(invocation.in_loop for invocation in self.invocations)

    @property
    def contexts(self) -> tuple[str, ...]:
        """Canonical names of the context managers and decorators that it always runs under."""
        common = set(self.invocations[0].contexts)
        for invocation in self.invocations[1:]:
            common &= set(invocation.contexts)
        return tuple(
            self.script.api.canonical(name)
            for name in self.invocations[0].contexts
            if name in common
        )

    @property
    def without_gradients(self) -> bool:
        """True if no backward pass follows wherever it is evaluated, or a library evaluates."""
        return all(
            invocation.gradients is False or in_evaluation_hook(invocation.function)
            for invocation in self.invocations
        )

    @property
    def subclass(self) -> ClassNode | None:
        """The script's own class that is instantiated here, if it is one."""
        return self.invocations[0].subclass

    @property
    def order(self) -> int:
        return self.invocations[0].order

    @cached_property
    def receiver(self) -> Value | None:
        """The value whose method is called."""
        values = [
            invocation.receiver
            for invocation in self.invocations
            if invocation.receiver is not None
        ]
        return unified(merge(values)) if values else None

    @property
    def is_partial(self) -> bool:
        """True if what it calls brings arguments along, as ``functools.partial`` makes it."""
        return any(invocation.is_partial for invocation in self.invocations)

    @property
    def has_unknown_keywords(self) -> bool:
        """True if keywords may be given that the model cannot see."""
        return any(
            invocation.open_keywords or invocation.open_arguments for invocation in self.invocations
        )

    @property
    def loads_own_code(self) -> bool:
        """True if what it loads may be of a class that comes with the checkpoint or project, and
        not certainly of one that transformers has."""
        return (
            not self.name.startswith("transformers.")
            or self.subclass is not None
            or self.has_unknown_keywords
            or self.setting("trust_remote_code").value not in (MISSING, None, False)
            or self.script._registers_models
        )

    @cached_property
    def positions(self) -> tuple[str, ...]:
        """Names of the parameters that can be given by position, in order."""
        return self.script.api.positions(self.name)

    def argument(self, index: int) -> Value:
        """The positional argument at ``index``; ABSENT where there is none."""
        return merge(
            invocation.arguments[index] if index < len(invocation.arguments) else ABSENT
            for invocation in self.invocations
        )

    def _binding(self, invocation: Invocation, name: str) -> Binding | None:
        binding = invocation.keywords.get(name)
        if binding is not None:
            return binding
        for position, argument in zip(self.positions, invocation.arguments, strict=False):
            if position == name:
                return Binding(argument, How.POSITIONAL, invocation.node)
        return None

    def setting(self, name: str) -> Setting:
        """The setting as the call gets it."""
        known = self._settings.get(name)
        if known is None:
            known = self._settings[name] = setting_of(
                name, self._merged(name), has_unknown_keywords=self.has_unknown_keywords
            )
        return known

    def _merged(self, name: str) -> Binding:
        return merge_bindings([self._binding(invocation, name) for invocation in self.invocations])

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """Names of all keywords that the call may get, in order of appearance."""
        return tuple(
            dict.fromkeys(name for invocation in self.invocations for name in invocation.keywords)
        )

    def settings(self) -> tuple[Setting, ...]:
        """All settings that the call gets by keyword."""
        return self._all_settings

    def notable_settings(self) -> tuple[Setting, ...]:
        """Those of options of which the tables know more than that the target takes them."""
        return self._notable_settings

    @cached_property
    def _notable_settings(self) -> tuple[Setting, ...]:
        plain = self.script.api.is_plain
        return tuple(self.setting(name) for name in self.keywords if not plain(self.name, name))

    @cached_property
    def _all_settings(self) -> tuple[Setting, ...]:
        return tuple(self.setting(name) for name in self.keywords)

    def effective(self, name: str) -> Setting:
        """The setting, or the target version's default where it is not given."""
        setting = self.setting(name)
        return setting if setting.given is not False else self._default(name)

    def _default(self, name: str) -> Setting:
        signature = self.script.api.signature(self.name)
        parameter = signature.parameters.get(name) if signature is not None else None
        if parameter is None:
            missing = signature is not None and not signature.accepts_any
            return Setting(name, False, MISSING if missing else UNSURE, Provenance.LIBRARY)
        value = parameter.default
        if parameter.required or isinstance(value, Expression):
            return Setting(name, False, UNSURE, Provenance.LIBRARY)
        return Setting(name, False, value, Provenance.LIBRARY)

    def has_option(self, name: str) -> bool:
        """True if the callee takes the option in the target version."""
        signature = self.script.api.signature(self.name)
        return signature is not None and name in signature.parameters

    @property
    def optimizes_all(self) -> bool:
        """True if this optimizer certainly gets all parameters of a model."""
        keyword = self.keyword_node("params")
        given = keyword.value if keyword is not None else next(iter(self.node.args), None)
        return given is not None and takes_all(self.script.flow, given)

    def keyword_node(self, name: str) -> Keyword | None:
        """The keyword as it stands in this very call."""
        return next((one for one in self.node.keywords if one.arg == name), None)


class Called(Evaluated):
    """A script that was run, and what started it: its calls, its imports, what its dicts hold."""

    def __init__(
        self, source: Source, tree: Module, api: Api, run: Interpreter, launcher: Launcher
    ) -> None:
        super().__init__(source, tree, api, run)
        self.launcher = launcher
        self._made: dict[CallNode, Call] = {}

    # -- names and values ------------------------------------------------------------------------

    @property
    def classes(self) -> list[ClassNode]:
        """The class definitions that some path reaches, in the order of the run, each once."""
        return list(dict.fromkeys(self._run.classes))

    @property
    def imports(self) -> list[tuple[ImportNode, ImportName, str]]:
        """Every import: the statement, the alias, the qualified name."""
        return self._run.imports

    def imports_package(self, *packages: str) -> bool:
        """True if anything of one of the top-level packages is imported."""
        return not self._packages.isdisjoint(packages)

    @cached_property
    def _packages(self) -> frozenset[str]:
        own = (full.partition(".")[0] for _, _, full in self.imports)
        return frozenset((*self._run.packages_above, *own))

    def settings_file(self, name: str) -> object:
        """What a JSON file of the project says (``ds.json``); None where that is not known."""
        return None if self._run.project is None else self._run.project.settings_file(name)

    def final_bindings(self, made: Object) -> dict[str, Binding]:
        """The bindings of an object when the script ends."""
        return self._run.bindings(made)

    def item(self, mapping: object, key: str) -> object:
        """What a dict of the script holds under ``key`` at the end: a Python value, or UNSURE.

        MISSING where it certainly has no such key, and where no mapping is given.
        """
        if not isinstance(mapping, Object):
            return MISSING if mapping in (None, MISSING) else UNSURE
        is_open = mapping.open or mapping.type != "dict"
        found = self._run.bindings(mapping).get(key)
        return setting_of(key, found, has_unknown_keywords=is_open).value

    def is_off_by_default(self, node: Node) -> bool:
        """True if the defaults of a command line or a function keep a node from running."""
        return is_off_by_default(self, node, self.python)

    def runs_by_default(self, node: Node) -> bool | None:
        """True if a node runs where defaults hold; None where a switch is not known."""
        return all_of(answers_around(self, node, self.python))

    def taken(self, made: Iterable[Made]) -> list[Made]:
        """What is made, of several values or calls, by the branches that run where defaults hold;
        several where a switch is not known."""
        left: list[tuple[Made, set[bool | None]]] = []
        for one in made:
            node = getattr(one, "node", None)
            answers = answers_around(self, node, self.python) if node is not None else ()
            left.append((one, set(answers)))
        decided = [one for one, answers in left if answers == {True}]
        return decided or [one for one, answers in left if False not in answers]

    def loop_ends(self, loop: Node) -> list[dict[str, Binding]]:
        """For each run of a loop, the names that a turn leaves bound to outputs or tensors."""
        return self._run.loop_ends.get(loop, [])

    stores = cached_property(stores_in)

    @cached_property
    def _registers_models(self) -> bool:
        """True if the script gives the Auto classes models of its own."""
        return any("transformers.Auto" in call.name for call in self.method_calls("register"))

    # -- calls -----------------------------------------------------------------------------------

    @cached_property
    def _invocations_by_node(self) -> dict[CallNode, list[Invocation]]:
        grouped: dict[CallNode, list[Invocation]] = defaultdict(list)
        for invocation in self._run.invocations:
            if call_itself(invocation.node) is not None and invocation.name != "fire":
                grouped[invocation.node].append(invocation)
        return grouped

    @cached_property
    def nodes_by_name_anywhere(self) -> dict[str, list[CallNode]]:
        """The call nodes of each canonical name, those of other files of the project too."""
        by_written: dict[str, list[CallNode]] = defaultdict(list)
        for node, invocations in self._invocations_by_node.items():
            by_written[invocations[0].name].append(node)
        grouped: dict[str, list[CallNode]] = defaultdict(list)
        for name, nodes in by_written.items():
            grouped[self.api.canonical(name)] += nodes
        return grouped

    @cached_property
    def _nodes_by_name(self) -> dict[str, list[CallNode]]:
        """The call nodes of each canonical name: few names are asked for, of many calls."""
        if len(self._run.trees) == 1:
            return self.nodes_by_name_anywhere
        grouped: dict[str, list[CallNode]] = defaultdict(list)
        for name, nodes in self.nodes_by_name_anywhere.items():
            here = [node for node in nodes if not is_elsewhere(node)]
            if here:
                grouped[name] = here
        return grouped

    @cached_property
    def _nodes_by_method(self) -> dict[str, list[CallNode]]:
        """The call nodes of each last part of a name."""
        return _by_method(self._nodes_by_name)

    @cached_property
    def nodes_by_method_anywhere(self) -> dict[str, list[CallNode]]:
        """``nodes_by_method``, in other files of the project too."""
        return _by_method(self.nodes_by_name_anywhere)

    def _call(self, node: CallNode) -> Call:
        call = self._made.get(node)
        if call is None:
            call = self._made[node] = Call(self, self._invocations_by_node[node])
        return call

    def _in_order(self, nodes: list[CallNode]) -> list[Call]:
        ordered = nodes
        if len(nodes) > 1:
            ordered = sorted(nodes, key=lambda node: (node.lineno, node.col_offset))
        return [self._call(node) for node in ordered]

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the script that some path reaches."""
        return tuple(
            self._in_order([one for one in self._invocations_by_node if not is_elsewhere(one)])
        )

    def calls_to(self, *names: str) -> tuple[Call, ...]:
        """Calls of callees by canonical qualified name (instances of subclasses included)."""
        return tuple(
            call for name in names for call in self._in_order(self._nodes_by_name.get(name, []))
        )

    def method_calls(self, *methods: str) -> tuple[Call, ...]:
        """Calls whose name ends in one of ``methods``, whatever it is called on."""
        return tuple(
            call
            for method in methods
            for call in self._in_order(self._nodes_by_method.get(method, []))
        )

    def calls_anywhere(self, *names: str) -> tuple[Call, ...]:
        """``calls_to``, in other files of the project too: those have no place here."""
        found = [node for name in names for node in self.nodes_by_name_anywhere.get(name, ())]
        return tuple(self._in_order(found))

    def method_calls_anywhere(self, *methods: str) -> tuple[Call, ...]:
        """``method_calls``, in other files of the project too: those have no place here."""
        found = [node for name in methods for node in self.nodes_by_method_anywhere.get(name, ())]
        return tuple(self._in_order(found))

    def library_calls(self, *packages: str) -> tuple[Call, ...]:
        """Calls of what is in one of the top-level ``packages``, by canonical name."""
        beginnings = tuple(f"{package}." for package in packages)
        names = [name for name in self._nodes_by_name if name.startswith(beginnings)]
        return tuple(self._in_order([node for name in names for node in self._nodes_by_name[name]]))

    def calls_of_several(self, *packages: str) -> tuple[tuple[Call, ...], ...]:
        """Calls of a name that is one of several things of the top-level ``packages``: the call
        once as a call of each (``trainer_class = SFTTrainer if tune else DPOTrainer``)."""
        beginnings = tuple(f"{package}." for package in packages)
        found = []
        for node in self._nodes_by_name.get("?", ()):
            invocations = self._invocations_by_node[node]
            names = list(dict.fromkeys(name for one in invocations for name in one.candidates))
            if names and all(name.startswith(beginnings) for name in names):
                call = Call(self, invocations)
                found.append(tuple(call.as_call_of(self.api.canonical(name)) for name in names))
        return tuple(found)

    def call_at(self, node: Node | None) -> Call | None:
        """The call that a node of the script is."""
        return None if is_elsewhere(node) else self.call_anywhere(node)

    def call_anywhere(self, node: Node | None) -> Call | None:
        """The call that a node is, of another file of the project too: it has no place here."""
        made = call_itself(node)
        return self._call(made) if made is not None and made in self._invocations_by_node else None

    def _calls_of(self, invocations: list[Invocation]) -> tuple[Call, ...]:
        """The places where evaluations of calls took place, in source order, each once."""
        nodes = dict.fromkeys(
            invocation.node
            for invocation in invocations
            if invocation.node in self._invocations_by_node
        )
        return tuple(self._in_order([node for node in nodes if not is_elsewhere(node)]))

    # -- in the order of the run -----------------------------------------------------------------

    @cached_property
    def _ordered(self) -> list[Invocation]:
        return sorted(self._run.invocations, key=_order)

    def _invocations_between(self, first: int, last: int) -> list[Invocation]:
        """The calls that were evaluated in a stretch of the run, in order."""
        start, end = (bisect_right(self._ordered, one, key=_order) for one in (first, last))
        return self._ordered[start:end]

    def _invocations_in(self, function: Node) -> list[Invocation]:
        """The calls that the runs of a function made, those of what it calls included."""
        extents = self._run.extents.get(function, [])
        return [one for first, last in extents for one in self._invocations_between(first, last)]

    @property
    def _scripts_run(self) -> frozenset[str]:
        """The paths of the scripts that lead to this one and were run for it."""
        return frozenset(path for path, _, _ in self._run.led_by)

    def _is_reached(self, place: Span) -> bool:
        """True of a place at the top, or whose calls scripts that lead here make."""
        if not any(self.span(one.node).contains(place) for one in self._run.defined):
            return True
        made = [one for _, *led in self._run.led_by for one in self._invocations_between(*led)]
        spans = [self.span(one.node) for one in made if not is_elsewhere(one.node)]
        return any(one.contains(place) or place.contains(one) for one in spans)

    @cached_property
    def led_by(self) -> tuple[tuple[Span, str], ...]:
        """The functions of this file that only another script of the project runs, and which."""
        project = self._run.project
        if project is None or not self._run.led_by:
            return ()
        found = []
        for function, extents in self._run.extents.items():
            starts = [first for first, _ in extents]
            if is_elsewhere(function) or min(starts) < self._run.led_by[0][1]:
                continue
            leading = [
                path
                for path, first, last in self._run.led_by
                if any(first <= start < last for start in starts)
            ]
            if leading:
                found.append((self.span(function), project.name_of(leading[0])))
        return tuple(found)

    def _end_of_run(self, invocation: Invocation) -> int:
        """The number of the last evaluation of the run that a call belongs to: from the top of the
        self, or of the function that runs by itself as nothing calls it."""
        if invocation.order <= self._run.end_of_top:
            return self._run.end_of_top
        around = [
            last
            for extents in self._run.extents.values()
            for first, last in extents
            if first < invocation.order <= last
        ]
        return max(around, default=invocation.order)

    def _call_leading_to(self, run: ForwardRun | Invocation) -> Call | None:
        """The call of this file by which something in a helper or another file is reached."""
        for function in self._run.extents:
            if function is not run.function and not is_elsewhere(function):
                continue
            # Calls of the same name further back started other runs of the function.
            nearest = next(self._callers(function, run.order), None)
            if nearest is not None and not is_elsewhere(nearest.node):
                return self.call_at(nearest.node)
        return None

    def _callers(self, function: Node, order: int) -> Iterator[Invocation]:
        """Yield the calls of a name that may have started the run in which something happened."""
        name = getattr(function, "name", "")
        for first, last in self._run.extents.get(function, ()):
            if first <= order <= last:
                for invocation in reversed(self._invocations_between(0, first)):
                    if invocation.name.rpartition(".")[2] == name:
                        yield invocation


def _by_method(nodes_by_name: dict[str, list[CallNode]]) -> dict[str, list[CallNode]]:
    """Group call nodes by the last part of their names."""
    grouped: dict[str, list[CallNode]] = defaultdict(list)
    for name, nodes in nodes_by_name.items():
        grouped[name.rpartition(".")[2]] += nodes
    return grouped
