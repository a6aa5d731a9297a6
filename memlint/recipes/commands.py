"""A launch command as a recipe: its flags and overrides are settings of the program it starts.

``tune run lora_finetune_single_device --config x.yaml dtype=fp32`` is a recipe of torchtune whose
keys stand in a shell script. What the command does not say is in the recipe that it names, if that
is at hand, and unknown otherwise.
"""

from memlint.recipes.document import (
    Document,
    DocumentError,
    Entry,
    MappingNode,
    Scalar,
    read_document,
)
from memlint.recipes.kinds import Kind
from memlint.recipes.launch import Command, Flag
from memlint.recipes.recipe import Recipe
from memlint.source import Source, Span

_KINDS = {
    "trl": Kind.TRL,
    "tune": Kind.TORCHTUNE,
    "llamafactory": Kind.LLAMA_FACTORY,
    "axolotl": Kind.AXOLOTL,
}
# Sections of torchtune that an override may replace by a component: ``optimizer=torch.optim.SGD``.
_SECTIONS = frozenset(
    {
        "model", "tokenizer", "checkpointer", "dataset", "optimizer", "lr_scheduler", "loss",
        "metric_logger", "profiler",
    }
)  # fmt: skip
_TRAINING = ("finetune", "dpo", "ppo", "grpo", "knowledge_distillation", "qat")
# Settings of the program, not of the training.
_OWN = frozenset({"config"})


def kind_of_command(command: Command) -> Kind | None:
    """The program whose recipe a command is; None where it starts a script, or trains nothing."""
    kind = _KINDS.get(command.starts)
    if kind is Kind.TORCHTUNE and not any(word in name_of(command) for word in _TRAINING):
        return None
    return kind


def name_of(command: Command) -> str:
    """What a command calls the thing that it starts: ``sft``, ``lora_finetune_single_device``."""
    target = command.target
    return (target.text or "") if target is not None and target.kind == "name" else ""


def document_of(command: Command, kind: Kind) -> Document:
    """The settings that a command gives, with their places in its file."""
    top: dict[str, Entry | dict[str, Entry]] = {}
    for flag in command.settings:
        if flag.name in _OWN or flag.form == "removal":
            continue
        section, _, key = flag.name.partition(".")
        if kind is Kind.TORCHTUNE and not key and section in _SECTIONS:
            key = "_component_"
        if key and kind is Kind.TORCHTUNE:
            inner = top.setdefault(section, {})
            if isinstance(inner, dict):
                inner[key] = _entry(key, flag)
        else:
            top[flag.name] = _entry(flag.name, flag)
    entries = [
        _section(name, value) if isinstance(value, dict) else value for name, value in top.items()
    ]
    return Document(MappingNode(command.span, tuple(entries)))


def _section(name: str, entries: dict[str, Entry]) -> Entry:
    start = next(iter(entries.values())).key.span.start
    place = Span(start, start)
    return Entry(Scalar(place, name), MappingNode(place, tuple(entries.values())))


def _entry(key: str, flag: Flag) -> Entry:
    known = isinstance(flag.value, str | bool)
    return Entry(Scalar(flag.option_span, key), Scalar(flag.span, _value(flag), tagged=not known))


def _value(flag: Flag) -> object:
    """What a flag's word means: YAML reads words as parsers of flags do."""
    if not isinstance(flag.value, str) or len(flag.value) > 200 or not flag.value.strip():
        return flag.value
    try:
        found = read_document(Source("flag.yaml", f"value: {flag.value}")).root.entry("value")
    except DocumentError:
        return flag.value
    plain = found is not None and isinstance(found.value, Scalar) and not found.value.tagged
    return found.value.value if found is not None and plain else flag.value  # type: ignore[union-attr]


def recipe_of(source: Source, command: Command, base: Recipe | None) -> Recipe | None:
    """The recipe that a command is, over ``base``, the one that it names; None where it is none.

    base: None where it is not at hand: what the command does not say is unknown.
    """
    kind = kind_of_command(command)
    readers = {Kind.TRL, Kind.ALIGNMENT_HANDBOOK} if kind is Kind.TRL else {kind}
    if kind is None or (base is not None and base.kind not in readers):
        return None
    document = document_of(command, kind)
    if not document.root.entries:
        return None
    # A recipe by a name that is not known may say anything.
    named = command.recipe or ("?.yaml" if command.setting("config") is not None else "")
    complete = not named and not command.has_unknown_arguments
    config = named if base is None else ""
    return Recipe(source, document, kind, base, complete, name_of(command), config, command)
