"""Where a script turns text into tokens, and whether the rows that it makes are trained on."""

from collections.abc import Callable, Iterator
from functools import cached_property

from memlint.engine import preparing
from memlint.engine.constants import python_value
from memlint.engine.nodes import (
    CallNode,
    Definition,
    Expression,
    Node,
    called_name,
    calls_in,
    holder_of,
    is_lambda,
    targets_of,
)
from memlint.engine.project import is_elsewhere
from memlint.engine.usage import Usage, Way
from memlint.engine.values import FunctionNode, Object, options
from memlint.flow.callables import EVALUATES, GENERATES, MAPS, RETURNS_ROWS, SHOWS, STEPS
from memlint.flow.evaluated import query
from memlint.flow.events import loops_of
from memlint.flow.following import uses_of
from memlint.script.called import Call
from memlint.script.calls import Host, Trainer
from memlint.script.datasets import Dataset, all_datasets_of, datasets_of, pads_to_longest
from memlint.script.forward_passes import all_steps_of
from memlint.script.guesses import is_held_out_name, may_be_held_out
from memlint.script.lengths import (
    FROM_TEXT,
    TOKENIZING_METHODS,
    Effect,
    Lengths,
    filled_up_in,
    is_tokenizer_call,
)
from memlint.script.loaded_models import model_facts
from memlint.script.purpose import Purpose, purpose_of_loop
from memlint.script.setups import feeds_training, trains
from memlint.source.patterns import lazy_pattern
from memlint.source.record import Record

Purposes = set[Purpose]
Passes = frozenset[CallNode]
_COLLATORS = frozenset({"collate_fn", "data_collator"})
# What drops rows, or cuts them before they are tokenized.
_CUTS = ("filter", "enable_truncation", "model_max_length", "truncate")
_FILLS = lazy_pattern(r"\] \* |\* \[|full\(|zeros\(|pad\(")
_SHORTENING = ("truncated", "cut into blocks", "filtered by length", "unknown")


class Tokenization(Record):
    """One place where a tokenizer is called.

    call: the call. function: the function around it that prepares rows or makes batches: a lambda
    that is mapped or collates, else the definition; None at module level.
    """

    script: Host
    call: Call

    def __repr__(self) -> str:
        return f"<tokenization line {self.call.node.lineno}>"

    @property
    def from_text(self) -> bool:
        """True if it turns text into tokens; a template may only make text, ``pad`` gets tokens."""
        call, method = self.call, called_name(self.call.node)
        if holder_of(call.node) is None:
            return True
        if call.name.startswith("transformers."):
            return call.method in FROM_TEXT
        return method in FROM_TEXT or method not in TOKENIZING_METHODS

    @cached_property
    def function(self) -> FunctionNode | None:
        """The function around it that prepares rows or makes batches."""
        around = self.script.functions_around(self.call.node)
        return next(
            (o for o in around if not is_lambda(o) or _is_handed_over(self.script, o)), None
        )

    @cached_property
    def prepares_training(self) -> bool:
        """True if the function around it prepares a training set.

        It is mapped over a data set (by itself or by a function that calls it), or makes the items
        of a ``torch.utils.data.Dataset`` with labels or pairs, in a script that trains, or that has
        a data module of Lightning. What the defaults switch off prepares nothing.
        """
        script, function = self.script, self.function
        if not feeds_training(script) or script.is_off_by_default(self.call.node):
            return False
        if _is_only_counted(script, self.call.node):
            return False
        if self.call.node in _rows_trained_on(script):
            return _becomes_row(script, self.call.node) or not _runs_a_model(function)
        if self.call.node in _lists_trained_on(script) and _becomes_row(script, self.call.node):
            return True
        if self.from_text and are_trained_on(script, self.call.node):
            return True
        definition = script.definition(function) if function is not None else None
        if definition is not None and _makes_items(script, definition):
            return True
        mapped = _mapped(script, function) if function is not None else ()
        return any(_is_for_training(script, one) for one in mapped)

    @cached_property
    def collates_training(self) -> bool:
        """True if it makes batches to train on, in a collator of the script's own or in a training
        step, in every run."""
        script, function = self.script, self.function
        if _is_forwarded(script, self.call.node):
            return not script.is_in_branch(self.call.node)
        if function is None or not trains(script):
            return False
        if script.is_in_branch(self.call.node):
            # As in ``if on_tpu:``: for some runs only.
            return False
        definition, owner = script.definition(function), script.class_of(function)
        if definition is None:
            return script.use(function).keyword in _COLLATORS
        purposes = _collated_by(script, definition)
        if Purpose.TRAINING in purposes:
            return True
        if owner is not None and definition.name in ("__call__", "torch_call"):
            return "ollat" in owner.name
        held_out = bool(purposes) and purposes <= {Purpose.EVALUATION, Purpose.INFERENCE}
        held_out = held_out or is_held_out_name(definition.name)
        places = script.mentions(definition.name)
        given = {word for one in places for word in script.keywords_around(one)}
        return not held_out and not _COLLATORS.isdisjoint(given)

    # -- the function around it ------------------------------------------------------------------

    @property
    def pads(self) -> bool:
        """True if it pads its rows, or may: to one length, or to the longest of them."""
        padding = self.call.setting("padding")
        return padding.given is not False and padding.value not in (False, None, "do_not_pad")

    @cached_property
    def labels(self) -> str:
        """The ``labels`` that the function gives its rows: ``copies`` of the input ids, equally
        long; ``others``; empty for none."""
        if self.function is None or not preparing.makes_labels(self.function):
            return ""
        tokenizer = self.script.text(self.call.node.func)
        calls = [self.script.text(call.func) for call in calls_in(self.function)]
        once = calls.count(tokenizer) == 1
        return "copies" if once and preparing.labels_copy_inputs(self.function) else "others"

    @property
    def label_statements(self) -> list[Node]:
        """The statements that give its rows labels; none where the script speaks of them more."""
        function, whole = self.function, [self.script.tree]
        return preparing.label_statements(function, whole) if function is not None else []

    @cached_property
    def makes_lists(self) -> bool:
        """True if the function makes lists, which may differ in length, and no tensors."""
        call, function = self.call, self.function
        open_or_tensors = (
            call.has_unknown_keywords or call.setting("return_tensors").given is not False
        )
        return (
            function is not None
            and function not in self.script._run.generators
            and not open_or_tensors
            and not preparing.speaks_of_tensors(function)
        )

    @property
    def may_be_cut(self) -> bool:
        """True if what it makes may be cut, split or dropped afterwards: by the function, or by
        what prepares the data set after it, seen or not."""
        return preparing.cuts_by_hand(self.function) or any(
            effect.kind in _SHORTENING
            for dataset in all_datasets_of(self.script)
            for effect in dataset.effects_after(self.call)
        )

    @cached_property
    def tokenizer_is_parameter(self) -> bool:
        """True if the tokenizer is a parameter of the function: its name means nothing outside."""
        called = self.call.node.func
        return holder_of(self.call.node) is None and self.script.takes_parameter(called)

    @cached_property
    def own_limit_is_useless(self) -> bool:
        """True if the tokenizer's own limit is known to be the model's whole context, or none."""
        receiver = self.call.receiver
        if not isinstance(receiver, Object) or receiver.made_by is None:
            return False
        load = self.script.call_at(receiver.made_by.node)
        if (
            load is None
            or load.has_unknown_keywords
            or load.setting("model_max_length").given is not False
        ):
            return False
        return model_facts(self.script, receiver).family.has("long_context")


@query
def tokenizations_of(script: Host) -> tuple[Tokenization, ...]:
    """The places where the script calls a tokenizer, in source order."""
    return tuple(Tokenization(script, call) for call in script.calls if is_tokenizer_call(call))


@query
def all_tokenizations_of(script: Host) -> tuple[Tokenization, ...]:
    """Those of other files of the project, too."""
    calls = map(script.call_anywhere, script._invocations_by_node)
    return tuple(Tokenization(script, call) for call in calls if call and is_tokenizer_call(call))


@query
def all_processings_of(script: Host) -> tuple[Tokenization, ...]:
    """The places where processors of images or sound get texts, with a limit of their own."""
    calls = map(script.call_anywhere, script._invocations_by_node)
    limited = (one for one in calls if one and one.setting("max_length").given)
    return tuple(Tokenization(script, one) for one in limited if "Processor." in one.name)


@query
def _rows_trained_on(script: Host) -> frozenset[CallNode]:
    """The calls that the preparation of a training set makes, by its classes and functions."""
    return frozenset(
        invocation.node
        for dataset in all_datasets_of(script)
        if dataset.purpose is Purpose.TRAINING
        for invocation in dataset.invocations
    )


@query
def _makers_of_rows_trained_on(script: Host) -> frozenset[Node]:
    """What makes training sets, in any file."""
    data = (one for one in all_datasets_of(script) if one.is_trained_on)
    return frozenset(node for one in data for node in one.makers)


@query
def _lists_trained_on(script: Host) -> frozenset[CallNode]:
    """The calls that are made while lists are filled that are trained on."""
    data = (one for one in all_datasets_of(script) if one.purpose is Purpose.TRAINING)
    return frozenset(invocation.node for one in data for invocation in one.fillings)


def _becomes_row(script: Host, node: Node) -> bool:
    """True if what a call makes is returned or put into a list; a prompt goes to a model."""
    uses = list(uses_of(script, node, _holds_rows))
    given = {use.name for use in uses if use.way is Way.GIVEN}
    kept = any(use.way is Way.RETURNED or _is_made_of(script, use) for use in uses)
    kept = kept or not given.isdisjoint(_GROWS)
    return kept and given.isdisjoint(GENERATES)


def _is_made_of(script: Host, use: Usage) -> bool:
    """True if a training set is made of what is used, or it is put into one."""
    makers = _makers_of_rows_trained_on(script)
    holder = holder_of(use.call) if use.way is Way.GIVEN and use.name in _GROWS else None
    lists = options(script.value(holder)) if holder is not None and makers else ()
    return use.around in makers or any(getattr(one, "node", None) in makers for one in lists)


def _holds_batch(use: Usage) -> bool:
    moves = use.way is Way.METHOD and use.name in ("to", "cuda", "items")
    return moves or use.way in (Way.READ, Way.ITEM) or use.name == "DictComp"


def _holds_whole_batch(use: Usage) -> bool:
    return _holds_batch(use) and (use.way is not Way.ITEM or use.name == "Constant")


def _is_forwarded(
    script: Host, node: CallNode, holds: Callable[[Usage], bool] = _holds_batch
) -> bool:
    """True if a training step runs a model on what a call in it makes, in a function that it calls
    too: ``model(**words(rows))``. A pass that autograd does not record scores or samples."""
    passes = _training_passes(script, node, around=True)
    uses = uses_of(script, node, holds) if passes else ()
    return any(use.way is Way.GIVEN and use.call in passes for use in uses)


def _training_passes(script: Host, node: Node, *, around: bool) -> Passes:
    """The calls of models that autograd may record, in the training steps ``around`` a place, or in
    the others."""
    call = script.call_anywhere(node)
    made = [loop for one in call.invocations for loop in loops_of(one)] if call else []
    loops = {*script.flow.loops_around(node), *made}
    steps = [step for step in all_steps_of(script) if (step.node in loops) is around]
    forwards = (each for step in steps for each in step.all_forwards)
    return frozenset(each.call.node for each in forwards if each.gradients is not False)


def makes_long_batches(one: Tokenization) -> bool:
    """True if batches to train on are as long as their texts, which are of no such length that the
    script says: nothing cuts what a collator, or a step, makes."""
    script, node, text = one.script, one.call.node, one.call.argument(0)
    forwarded = _is_forwarded(script, node)
    said = any(isinstance(python_value(each), str | list | tuple) for each in options(text))
    cut = preparing.cuts_by_hand(node if forwarded else one.function)
    cut = cut or (forwarded and not _is_forwarded(script, node, _holds_whole_batch))
    return one.collates_training and not (cut or said or script.is_named(*_CUTS))


def _runs_a_model(function: FunctionNode | None) -> bool:
    """True if a function runs something without gradients: it judges rows, or filters them."""
    names = map(called_name, calls_in(function) if function is not None else ())
    return not {"no_grad", "inference_mode"}.isdisjoint(names)


@query
def _pads_in_other_files(script: Host) -> bool:
    """True if another file of the project pads rows, or may."""
    return any(is_elsewhere(one.call.node) and one.pads for one in all_tokenizations_of(script))


# -- preparation of training sets ------------------------------------------------------------------


def _is_only_counted(script: Host, node: Node) -> bool:
    """True if nothing is read of tokens but how many they are: ``len(tokenizer.encode(text))``."""
    uses = list(uses_of(script, node))
    return bool(uses) and all(
        (use.way is Way.GIVEN and use.name == "len")
        or (use.way in (Way.ITEM, Way.READ) and _is_only_counted(script, use.around))
        for use in uses
    )


def _is_handed_over(script: Host, function: FunctionNode) -> bool:
    """True if a lambda is mapped over a data set, or is a collator."""
    use = script.use(function)
    return use.way is Way.GIVEN and (use.keyword in _COLLATORS or use.name in MAPS)


def _collated_by(script: Host, function: Definition) -> set[Purpose]:
    """The purposes of the data sets whose batches a collator makes."""
    return {
        dataset.purpose
        for dataset in all_datasets_of(script)
        if any(
            one.operation == "collate" and one.function is function for one in dataset.preparations
        )
    }


def _is_for_training(script: Host, mapped: CallNode) -> bool:
    """True if mapped rows are trained on: by where they go, else by what the data set is called."""
    purpose = purpose_of(script, mapped)
    if purpose is not Purpose.UNKNOWN:
        return purpose is Purpose.TRAINING
    holder = holder_of(mapped)
    named = [*targets_of(script.statement(mapped)), *([holder] if holder is not None else [])]
    return not may_be_held_out(script, *named)


def _mapped(script: Host, function: FunctionNode, depth: int = 2) -> Iterator[CallNode]:
    """The calls that map a function over a data set."""
    name = getattr(function, "name", None)
    for node in script.call_nodes:
        given = set(preparing.functions_given(node)) if called_name(node) in MAPS else set()
        if function in given or name in given:
            if not _is_only_shown(script, node) and not script.is_off_by_default(node):
                yield node
        elif depth and name is not None and called_name(node) == name:
            around = script.function(node)
            if around is not None and around is not function:
                yield from _mapped(script, around, depth - 1)


def _is_only_shown(script: Host, mapped: CallNode) -> bool:
    """True if the mapped data set gets a name that nothing but ``print`` and its like reads."""
    return script.use(mapped).way is Way.STORED and all(
        use.way in (Way.DROPPED, Way.PRINTED) or (use.way is Way.GIVEN and use.name in SHOWS)
        for use in uses_of(script, mapped, _is_part)
    )


def _is_part(use: Usage) -> bool:
    """True if a use gives a part of the rows, or of what is known of them: ``rows[0].keys()``."""
    return use.way in (Way.ITEM, Way.READ) or (use.way is Way.METHOD and use.name == "keys")


# -- data sets of the script's own -----------------------------------------------------------------


def _makes_items(script: Host, function: Definition) -> bool:
    """True if a function, or a method that calls it by its name, makes items of a data set of the
    script's own, which have labels or are pairs."""
    calls = () if is_held_out_name(function.name) else script.method_calls(function.name)
    callers = (script.function(call.node) for call in calls if holder_of(call.node) is None)
    told = preparing.makes_labels(function) or preparing.makes_pairs(function)
    return any(
        home is not None
        and _is_in_data_set(script, home)
        and (told or preparing.makes_labels(script.class_of(home)))
        for home in (function, *callers)
    )


def _is_in_data_set(script: Host, function: Definition) -> bool:
    """True if a function is a data set's constructor or makes its items."""
    owner = script.class_of(function)
    return (
        owner is not None
        and function.name in ("__getitem__", "__init__")
        and any(script.text(base).endswith("Dataset") for base in owner.bases)
        and not is_held_out_name(owner.name)
    )


@query
def may_truncate(script: Host) -> bool:
    """True if a tokenizer's call here may truncate, or none is in sight."""
    calls = [one.call for one in tokenizations_of(script) if one.call.method != "pad"]
    return not calls or any(
        call.has_unknown_keywords or call.setting("truncation").given is not False for call in calls
    )


def lengths_may_differ(script: Host, trainer: Trainer | None) -> bool:
    """True if the making of a trainer's (None: a loop's) training set is in sight and leaves rows
    of several lengths: no tokenizer of the script pads what it prepares. Pairs that DPO tokenizes
    itself need not be in sight."""
    data = _trained_sets(script, trainer)
    if trainer is not None and trainer.kind == "trl.DPOTrainer":
        return bool(data) and not any(one.does(Lengths.PADDED, Lengths.CUT) for one in data)
    pads = any(one.pads and not one.collates_training for one in tokenizations_of(script))
    known = not (pads or _pads_in_other_files(script))
    return known and any(one.lengths_differ or pads_to_longest(one) for one in data)


def _trained_sets(script: Host, trainer: Trainer | None) -> list[Dataset]:
    reader = trainer and trainer.node
    data = [one for one in datasets_of(script) if (one.trainer and one.trainer.node) is reader]
    return [one for one in data if one.purpose is not Purpose.EVALUATION]


# -- what rows are read for ------------------------------------------------------------------------

_DEPTH = 7
_LISTS = ("List", "Tuple")
# What rows are put into, and what makes a data set of them.
_HOLDERS = (*_LISTS, "Dict", "ListComp", "GeneratorExp")
_BUILDERS = (
    *("from_dict", "from_pandas", "from_list", "from_generator", "TensorDataset", "DatasetDict"),
    *("tensor", "LongTensor", "stack"),
)
_GROWS = ("append", "extend")


def purpose_of(script: Host, node: Expression) -> Purpose:
    """The purpose of the rows that ``node`` makes; UNKNOWN where a use cannot be followed."""
    readers = {
        dataset.purpose
        for dataset in all_datasets_of(script)
        if any(rows.made_by and rows.made_by.node is node for rows in dataset.rows)
    }
    uses = _uses(script, node)
    if Purpose.TRAINING in readers | uses:
        return Purpose.TRAINING
    for known in (readers, uses):
        if known and Purpose.UNKNOWN not in known:
            return min(known)
    return Purpose.UNKNOWN


def are_trained_on(script: Host, node: Node) -> bool:
    """True if what an expression makes becomes rows to train on: items, or what is returned."""
    return Purpose.TRAINING in _uses(script, node, _training_passes(script, node, around=False))


@query
def filled_lists_of(script: Host) -> tuple[Effect, ...]:
    """Where functions fill rows up by hand that become, through lists, what is trained on: the
    first place of each function."""
    written = [one for one in script.functions if _FILLS.search(script.text(one))]
    written = written if trains(script) else []
    found = [next(filled_up_in(script, one), None) for one in written]
    return tuple(one for one in found if one is not None and are_trained_on(script, one.node))


# -- uses of an expression -------------------------------------------------------------------------


def _uses(script: Host, node: Node, passes: Passes | None = None, depth: int = _DEPTH) -> Purposes:
    """The purposes of the rows that an expression makes, by the code around it.

    passes: the calls that train on rows, which are followed into what they are put into; or None.
    """
    if depth == 0:
        return {Purpose.UNKNOWN}
    purposes: Purposes = set()
    holds = passes is not None

    def onward(use: Usage) -> bool:
        if holds and _is_made_of(script, use):
            purposes.add(Purpose.TRAINING)
        own = use.way is Way.GIVEN and script.definitions_of(use.name) != []
        remade = own and holder_of(use.expression) is None
        return remade or _holds_rows(use) if holds else _has_rows(use)

    for use in uses_of(script, node, onward):
        if holds and _goes_into_holder(use):
            for read in _reads_of_holder(script, use):
                purposes |= _uses(script, read, passes, depth - 1)
        elif use.way is Way.GIVEN:
            purposes |= _of_argument(script, use, passes)
        elif use.way is Way.LOOPED:
            purposes.add(_of_loop(script, use.around))
        elif use.way is Way.RETURNED and (use.name == "Return" or holds):
            purposes |= _of_callers(script, use.around, passes, depth - 1)
        elif use.way not in (Way.DROPPED, Way.PRINTED):
            purposes.add(Purpose.UNKNOWN)
    return purposes


def _goes_into_holder(use: Usage) -> bool:
    """True if a use adds something to a list or a row, or makes it one of the items."""
    grows = use.way is Way.GIVEN and use.name in _GROWS
    longer = use.way is Way.STORED and use.name == "Add"
    return grows or longer or any(place.item for place in use.places)


def _has_rows(use: Usage) -> bool:
    """True if what a use makes has the rows: ``rows.map(f).shuffle()["train"]``."""
    if use.way is Way.GIVEN:
        return use.name in RETURNS_ROWS
    return use.way in (Way.METHOD, Way.ITEM) or (use.way is Way.HELD and use.name in _LISTS)


def _holds_rows(use: Usage) -> bool:
    """True if what a use makes has the rows, more of them or longer, or is a data set or a
    collection of them."""
    built = use.way is Way.GIVEN and use.name in _BUILDERS
    built = built or (use.way is Way.LOOPED and use.name == "ListComp")
    held = use.way is Way.HELD and use.name in _HOLDERS
    longer = use.way is Way.COMPUTED and use.name == "Add"
    return built or held or longer or use.way is Way.READ or _has_rows(use)


def _reads_of_holder(script: Host, use: Usage) -> list[Expression]:
    """Where a name is read of what rows are put into: a list, the entries of a dict or columns."""
    if use.way is Way.GIVEN:
        holder = holder_of(use.call)
        held = {} if holder is None else {script.text(holder): holder}
    else:
        kept = (one for one in use.places if one.item or use.name == "Add")
        held = {one.name: one.node for one in kept if one.holder is None}
    reads = (
        read for name, at in held.items() for read in script.flow.uses(name, script.flow.scope(at))
    )
    return [one for one in reads if one not in held.values() and not script.use(one).is_written]


def _of_argument(script: Host, use: Usage, passes: Passes | None) -> Purposes:
    if passes is not None and use.call in passes:
        return {Purpose.TRAINING}
    if use.name in SHOWS or use.name == "save_to_disk":
        return set()
    if use.name in EVALUATES:
        return {Purpose.EVALUATION}
    if use.name in GENERATES:
        return {Purpose.INFERENCE}
    call, name = script.call_at(use.around), use.keyword
    if call is not None and use.position is not None:
        name = dict(enumerate(call.positions)).get(use.position)
    return {_of_parameter(name or "")}


def _of_loop(script: Host, loop: Node) -> Purpose:
    methods = {called_name(call) for call in calls_in(loop)}
    if methods & STEPS:
        return Purpose.TRAINING
    if methods & EVALUATES:
        return Purpose.EVALUATION
    if methods & GENERATES:
        return Purpose.INFERENCE
    return purpose_of_loop(script, loop) or Purpose.UNKNOWN


def _of_callers(script: Host, returned: Node, passes: Passes | None, depth: int) -> Purposes:
    function = script.function(returned)
    calls: list[Node] = [*script.calls_named(function.name)] if function is not None else []
    if function is not None and passes is not None:
        # ``from_generator(rows)``: it is called there.
        given = [one for one in script.mentions(function.name) if script.use(one).way is Way.GIVEN]
        calls += [script.use(one).around for one in given if script.use(one).name in _BUILDERS]
    purposes = [_uses(script, call, passes, depth) for call in calls]
    return set().union(*purposes) if purposes else {Purpose.UNKNOWN}


def _of_parameter(name: str) -> Purpose:
    if name.startswith("train"):
        return Purpose.TRAINING
    if name.startswith(("eval", "test", "valid")):
        return Purpose.EVALUATION
    return Purpose.UNKNOWN
