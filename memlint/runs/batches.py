"""What a run forwards at once: rows, their lengths, accumulation, evaluation, completions."""

from collections import defaultdict

from memlint.engine.constants import python_value
from memlint.engine.forwards import ForwardRun
from memlint.engine.modes import module_root
from memlint.engine.nodes import Node, arguments_of
from memlint.engine.preparing import becomes_labels, texts_a_row
from memlint.engine.usage import Way
from memlint.engine.values import first_object
from memlint.flow.following import uses_of
from memlint.runs.plain_options import (
    Options,
    Rows,
    by_rows,
    calls_anywhere,
    count_in,
    flag_in,
    options_of,
)
from memlint.script.calls import Config, Trainer
from memlint.script.datasets import all_datasets_of
from memlint.script.forward_passes import all_forwards_of, all_steps_of
from memlint.script.gradients import accumulates_unknown
from memlint.script.guesses import size_by_name
from memlint.script.lengths import Effect, Lengths
from memlint.script.model import Script
from memlint.script.purpose import Purpose
from memlint.script.tokenization import Tokenization, all_processings_of, all_tokenizations_of
from memlint.script.trained import Trained, makes_each_turn

_IDS = "input_ids"
_LIMITS = (Lengths.TRUNCATED, Lengths.PADDED, Lengths.CUT)
_ARGUMENTS: Rows = (
    ("per_device_train_batch_size", "micro_batch", count_in),
    ("gradient_accumulation_steps", "gradient_accumulation", count_in),
    ("num_generations", "group_size", count_in),
    ("max_prompt_length", "prompt_len", count_in),
    ("max_completion_length", "completion_len", count_in),
    ("response_length", "completion_len", count_in),
    ("max_length", "seq_len", count_in),
    ("max_seq_length", "seq_len", count_in),
    ("packing", "packed", flag_in),
    ("group_by_length", "longest_first", lambda value: value is True or None),
    ("train_sampling_strategy", "longest_first", lambda value: value == "group_by_length" or None),
)
# Trainers whose rows are two sequences, and the length of a pack where none is said.
_IN_PAIRS = ("DPOTrainer", "ORPOTrainer", "CPOTrainer", "RewardTrainer")
_SAMPLING = ("GRPOTrainer", "RLOOTrainer", "PPOTrainer", "PPOv2Trainer")
_PACK = 1024
_USUAL = 512  # tokens of a row at the most, on the average, that nothing packs or fills up
_SIZES = ("micro_batch", "seq_len")
_JOINS = "each row of the data set is several of the batch: how many is not read"
_COUNTED = "it accumulates gradients, and how often is not read"
_KEEPS = "compute_metrics keeps the logits of all rows: it grows with each batch"


def tokens_of_pass(script: Script, one: Trained) -> tuple[int, int, int] | None:
    """The rows of each pass over what is trained, the most tokens of one, and how many all have
    usually; None where that is not known."""
    trainer, pairs = one.trainer, 1
    if trainer is None:
        values = batches_of_loop(script)
    else:
        values = batches_of_trainer(script, trainer, one.config)
        pairs += trainer.is_kind(*_IN_PAIRS)
    rows, even = values.get("micro_batch"), values.get("packed") is True
    length = values.get("seq_len") or values.get("completion_len") or (even and _PACK)
    if not (rows and length):
        return None
    rows *= pairs
    # One of several rows is long, most of those that come alone are short.
    usual = min(length // (2 if rows > 1 else 4), _USUAL)
    return rows, length, rows * (length if even or "fixed_length" in values else usual)


def batches_of_trainer(script: Script, trainer: Trainer, config: Config | None) -> Options:
    """The settings of a trainer's batches: those that are given, and the libraries' defaults."""
    values: Options = {}
    if config is not None:
        # TRL once gave its trainers such arguments, which go before the configuration's.
        own = {name: trainer.setting(name) for name, _, _ in _ARGUMENTS}
        given = {k: (one if one.given else config.effective(k)).value for k, one in own.items()}
        values = by_rows(given, _ARGUMENTS) | _generation(config)
        if config.setting("max_length").is_none:
            values["notes"] = {"seq_len": "max_length=None: nothing limits rows"}
        values |= _evaluation(trainer, config)
    tokens = _tokens(script)
    if "seq_len" in tokens and trainer.is_kind(*_SAMPLING):
        tokens["prompt_len"] = tokens.pop("seq_len")  # its rows are prompts
    limited = "notes" not in values and not trainer.skips_preparation
    values = {**tokens, **values} if limited else values | tokens
    return _joined(script, values)


def batches_of_loop(script: Script) -> Options:
    """The settings of a hand-written loop's batches."""
    values = _tokens(script)
    for dataset in all_datasets_of(script):
        rows = dataset.batch_size.value if dataset.batch_size is not None else None
        if dataset.loader is not None and count_in(rows) and dataset.is_trained_on:
            values["micro_batch"] = rows
    if "micro_batch" not in values:
        loaders = calls_anywhere(script, "torch.utils.data.DataLoader")
        sizes = {count_in(options_of(one).get("batch_size")) for one in loaders}
        values |= {"micro_batch": sizes.pop()} if len(sizes) == 1 and None not in sizes else {}
    if "seq_len" in values and (sampled := _sampled(script)):
        values["seq_len"] += sampled
    values = _sized(script, values)
    return _joined(script, _accumulated(script, values))


def _accumulated(script: Script, values: Options) -> Options:
    """The settings with the micro-batches of a step; two where nobody can tell how many."""
    if more := script.accumulation:
        return {**values, "gradient_accumulation": more}
    if not accumulates_unknown(script):
        return values
    notes = {**values.get("notes", {}), "gradient_accumulation": _COUNTED}
    return {**values, "gradient_accumulation": 2, "notes": notes}


def _sized(script: Script, values: Options) -> Options:
    """The settings with the sizes that the script draws, or has a name for."""
    values = {**dict(zip(_SIZES, _drawn(script), strict=False)), **values}
    for name in _SIZES:
        if count_in(values.get(name)) is None and (guess := size_by_name(script, name)):
            values[name], values.setdefault("notes", {})[name] = guess
    return values


def _drawn(script: Script) -> list[int | None]:
    """The sizes of ids that a loop draws: ``torch.randint(0, 90, (8, 512))``."""
    calls = [one.node for one in all_forwards_of(script) if one.steps]
    for drawn in [script.value(node) for call in calls for node in arguments_of(call)[:1]]:
        made = script.call_anywhere(getattr(drawn, "node", None))
        if made is not None and made.method in ("randint", "zeros", "ones"):
            sizes = [getattr(script.value(one), "items", ()) for one in arguments_of(made.node)]
            return [count_in(python_value(one)) for size in sizes for one in size]
    return []


def _joined(script: Script, values: Options) -> Options:
    """The settings with the rows that a step forwards, where each row of a data set is several:
    questions and answers that are tokenized as one list."""
    loops = {step.node for step in script.steps}
    counts: list[int | None] = []
    for one in all_tokenizations_of(script):
        step = next((o for o in script.flow.loops_around(one.call.node) if o in loops), None)
        around = step or (one.function if one.collates_training else None)
        if around is not None and one.from_text and one.call.node.args:
            counts.append(texts_a_row(around, one.call.node.args[0]))
    if None in counts:
        return {**values, "notes": {**values.get("notes", {}), "micro_batch": _JOINS}}
    times = max(filter(None, counts), default=1) * _passes(script)
    rows = values.get("micro_batch")
    return {**values, "micro_batch": rows * times} if rows else values


def _passes(script: Script) -> int:
    """How many passes of one model wait for one backward pass: of questions, then of answers."""
    places: dict[tuple[Node, int], set[Node]] = defaultdict(set)
    for forward, run in ((one, run) for one in all_forwards_of(script) for run in one.runs):
        certain = run.gradients is True and forward.facts.loads
        root = first_object((run.module,) if certain else ())
        call = script._call_leading_to(run) or forward.call
        for turn in _turns(script, run) if root is not None else ():
            if root is not None and makes_each_turn(script, turn, call):
                places[turn, id(module_root(root))].add(call.node)
    return max(map(len, places.values()), default=1)


def _turns(script: Script, run: ForwardRun) -> list[Node]:
    """The steps with one backward pass that make a pass, and the loss of a plain trainer."""
    steps = [one for one in all_steps_of(script) if len(one.backwards) < 2 and one.runs_it(run)]
    by_trl = any(one.kind.startswith("trl.") for one in script.all_trainers)
    return [*(one.node for one in steps), *([run.hook] if run.hook and not by_trl else ())]


def _sampled(script: Script) -> int:
    """How many tokens a step adds to its prompts: it generates what it is trained on."""
    for call in script.method_calls("generate"):
        around = set(script.flow.loops_around(call.node))
        before = any(
            step.order is not None and call.order < step.order
            for step in script.steps
            if not around.isdisjoint((step.node, *step.epochs))
        )
        if before and script.runs_by_default(call.node) is True:
            return count_in(options_of(call).get("max_new_tokens")) or 0
    return 0


def _generation(config: Config) -> Options:
    """vLLM beside the trainer takes its share of the GPU; as a server it takes none of it."""
    if not config.effective("use_vllm").is_value(True):
        return {}
    if config.effective("vllm_mode").is_value("server"):
        return {"generation": {"vllm": True}}
    share = config.effective("vllm_gpu_memory_utilization").value
    share = share if isinstance(share, float) else 0.3
    sleeps = config.effective("vllm_enable_sleep_mode").is_value(True)
    options = {"vllm": True, "vllm_gpu_memory_utilization": share}
    return {"generation": options, "vllm_sleep": sleeps}


def _evaluation(trainer: Trainer, config: Config) -> Options:
    if not trainer.evaluates_on_schedule:
        return {}
    rows = count_in(config.effective("per_device_eval_batch_size").value)
    values: Options = {"evaluation": True, **({"eval_batch": rows} if rows else {})}
    metrics = trainer.setting("compute_metrics")
    cut = trainer.setting("preprocess_logits_for_metrics").given is not False
    samples = config.effective("predict_with_generate").is_value(True)
    if trainer.kind.startswith("trl.") or cut or samples or not metrics.given or metrics.is_none:
        return values
    if count_in(config.effective("eval_accumulation_steps").value):
        return values
    return {**values, "notes": {"eval_rows": _KEEPS}}


def _tokens(script: Script) -> Options:
    """The longest that tokenization leaves rows of a training set, where it is a number, and
    whether all rows have one length: padded to it, or cut into blocks."""
    effects = [
        each
        for one in all_datasets_of(script)
        if one.purpose is not Purpose.EVALUATION
        for each in one.effects
    ]
    kinds = {effect.kind for effect in effects}
    fixed = Lengths.UNKNOWN not in kinds and not kinds.isdisjoint((Lengths.PADDED, Lengths.CUT))
    values: Options = {"fixed_length": True} if fixed else {}
    for one in (*all_tokenizations_of(script), *all_processings_of(script)):
        length = count_in(one.call.setting("max_length").value)
        if length and _makes_tokens_to_train_on(script, one):
            name = "label_len" if _makes_labels(script, one) else "seq_len"
            values[name] = max(length, values.get(name, 0))
    limits = (_most(effects, *_LIMITS), _most(effects, Lengths.FILTERED))
    limit = min(filter(None, limits), default=0)
    return values if limit == values.get("label_len", 0) else {**values, "seq_len": limit}


def _most(effects: list[Effect], *kinds: Lengths) -> int:
    return max((one.tokens or 0 for one in effects if one.kind in kinds), default=0)


def _makes_labels(script: Script, one: Tokenization) -> bool:
    """True if all that a tokenizer makes there goes into labels."""
    if one.call.setting("text_target").given is not False:
        return True
    uses = uses_of(script, one.call.node, lambda use: use.way is Way.ITEM or use.name == _IDS)
    found = [becomes_labels(use) for use in uses]
    return bool(found) and all(found)


def _makes_tokens_to_train_on(script: Script, one: Tokenization) -> bool:
    around = {loop for made in one.call.invocations for loop in made.loops}
    in_step = any(step.node in around for step in script.steps)
    return in_step or one.prepares_training or one.collates_training
