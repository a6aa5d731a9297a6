"""What is guessed from words and names, because no value says it.

A guess is wrong in some scripts, so that it can only silence, or be named as an assumption: nothing
is reported, and no fix is safe, because of it. Each function here says what it takes for granted,
and a test has a script where that is wrong, and nothing worse follows. Comments and prose are never
read, nor what the script calls its own variables, unless the function says so.
"""

import re

from memlint.engine.definitions import words_of_code
from memlint.engine.nodes import Expression, Node, key_of, last_name, literal_of, walk
from memlint.engine.project import is_elsewhere, place_of_setting
from memlint.flow.evaluated import query
from memlint.script.called import Called
from memlint.source.patterns import lazy_pattern

# The words of a name: ``eval`` and ``Rows`` of ``eval_Rows``, ``evalRows``.
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WORDS = re.compile(r"\w+")
_HELD_OUT = re.compile(r"test|tests|dev|eval.*|valid.*|infer.*|predict.*|bench.*")


@query
def words_of(script: Called) -> str:
    """Return the names of code that is not the script's own, of all files, one a line."""
    return "\n".join(words_of_code(script))


def may_use(script: Called, *words: str) -> bool:
    """True if the script may use what is called by one of ``words``: it stands in a name of code.

    The guess: a library's name says what it is for (``register_forward_hook``, ``checkpointing``).
    """
    return any(word in words_of(script) for word in words)


def may_checkpoint(script: Called) -> bool:
    """True if the script may decide about activation checkpointing.

    The guess: what is called by that word is about activations, but for what saves a run's state.
    """
    words = words_of(script).split("\n")
    lightning = script.imports_package("lightning", "pytorch_lightning")
    saving = _SAVING + _OF_LIGHTNING if lightning else _SAVING
    decides = any("checkpointing" in word and not word.endswith(saving) for word in words)
    calls = script.method_calls_anywhere("checkpoint", "checkpoint_sequential")
    called = any(one.name.startswith("torch.utils.checkpoint.") for one in calls)
    return decides or called or may_use(script, "torch.utils.checkpoint")


_SAVING = ("register_for_checkpointing", "init_checkpointing", "setup_checkpointing")
_OF_LIGHTNING = ("enable_checkpointing", "disable_checkpointing")


def matches(script: Called, pattern: re.Pattern[str]) -> bool:
    """True if a pattern is found anywhere in the files that are run, comments included.

    The guess: what people write of their GPU is true (``# a T4``).
    """
    if pattern not in script.answers:
        texts = (script.source.text, *script._run.texts)
        script.answers[pattern] = any(map(pattern.search, texts))
    return bool(script.answers[pattern])


def may_be_out_of_use(path: str) -> bool:
    """True if one of the two folders around a file is for what nobody runs any more, or for tests.

    The guess: the name of the folder is true (``archive``, ``deprecated_scripts``, ``fixtures``).
    """
    folders = re.split(r"[\\/]", path)[-3:-1]
    return any(_OUT_OF_USE.fullmatch(folder.lower()) for folder in folders)


_OUT_OF_USE = lazy_pattern(
    r"(archived?|deprecated|legacy|do[-_]?not?[-_]?use)([-_].*)?|tests?|fixtures"
)


def may_have_room(script: Called) -> bool:
    """True if a notebook was run on a GPU of 40 GB or more, by what it keeps or has printed.

    The guess: it is run there again.
    """
    return _LARGE_GPU.search(script.source.raw) is not None


# ``NVIDIA A100-SXM4-40GB``: a name that the driver gives, not one of prose.
_LARGE_GPU = lazy_pattern(
    rb'"gpuType\\?": ?\\?"(A100|H100|G4)|\b(A100|A800|H100|H200|H800)[- ](SXM|PCI|NVL|\d\dGB)'
)


def may_be_refused(script: Called, node: Node, *words: str) -> bool:
    """True if a comment on the lines of a node, or above them, has one of ``words``.

    The guess: who writes of ``no_grad`` where it is missing has a reason (``# breaks compile``),
    and who turns half precision off ``# for the CPU`` trains there.
    """
    if is_elsewhere(node) or place_of_setting(node) is not None:
        return False
    source, span = script.source, script.span(node)
    rows = range(max(source.line(span.start) - 1, 0), source.line(span.end) + 1)
    above, *lines = map(source.line_text, rows)
    lines += [above] if above.lstrip().startswith("#") else []
    said = " ".join(line.partition("#")[2].lower() for line in lines)
    return not frozenset(words).isdisjoint(_WORDS.findall(said))


def may_be_held_out(script: Called, *nodes: Node) -> bool:
    """True if data is kept for evaluation by what the script calls it.

    The guess: what is called ``test_rows`` or ``collate_eval`` is no training set. The script's own
    names are read, as nothing else says what the rows are for.
    """
    return is_held_out_name(" ".join(script.text(node) for node in nodes))


def is_held_out_name(name: str) -> bool:
    """True if a name is one of ``may_be_held_out``: ``EvalDataset``, not ``latest``."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    held_out = any(_HELD_OUT.fullmatch(part) for part in parts)
    return held_out and not any(part.startswith("train") for part in parts)


def may_ask_for_a_version(script: Called, of: str, test: Expression) -> bool:
    """True if a condition may ask which version of a library is there. of: what a version may lack
    something of.

    The guess: it then says ``version`` in some form, ``hasattr`` or ``signature``, there or where
    its names are bound. The script's own names are read.
    """
    said: list[Node] = [test]
    for name in map(last_name, walk([test])):
        said += [one.value for one in script.stores.get(name, ()) if one.value is not None]
        said += [one for one in script.definitions_of(name) if len(one.body) <= 3]
    text = "\n".join(map(script.text, said))
    return any(word in text for word in ("ersion", "signature(", f"hasattr({of},"))


def is_output_name(name: str) -> bool:
    """True if a name is one that outputs of models go by.

    The guess: what is called ``outputs`` or ``pred`` is one, so that reading it reads its fields.
    """
    return "out" in name or "pred" in name


def may_be_tokenizer(name: str) -> bool:
    """True if what is called may turn text into tokens, to whatever length.

    The guess: a tokenizer of which nothing is seen goes by such a name.
    """
    return "tok" in name.lower()


def size_by_name(script: Called, what: str) -> tuple[int, str] | None:
    """The one number that the script's names for a size of its batches have, and why it is taken.

    The guess: what is called ``batch_size`` is the training's. The script's own names are read.
    """
    found: dict[int, str] = {}
    for node, value in script.evaluated():
        name = str(literal_of(key_of(node) or node) or last_name(node))
        number = getattr(value, "value", None) if _SIZES[what].fullmatch(name.lower()) else None
        found |= {number: f"the script's `{name}`"} if type(number) is int else {}
    return found.popitem() if len(found) == 1 and min(found) > 0 else None


_SIZES = {
    "micro_batch": re.compile(r"(?:micro_|train_)?(?:batch_?size|batch|bs|bsz)"),
    "seq_len": re.compile(r"(?:max_?)?(?:block(?:_?size)?|(?:(?:seq|context)_?)?len(?:gth)?)"),
}
