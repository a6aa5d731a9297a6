"""Reads torch's out-of-memory messages out of a log, of any generation, with what stands around.

A message names the block that the allocator wanted, not the tensor: torch rounds a request of at
most 1 MiB up to 2 MiB, one below 10 MiB up to 20 MiB, and any other up to a multiple of 2 MiB
(``c10/cuda/CUDACachingAllocator``), then shows it with two decimals.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from memlint.source.bounded import read_regular
from memlint.source.record import Record

_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("bytes", "byte", "B"), 1),
    **{
        f"{letter}{end}": 2**power
        for letter, power in (("K", 10), ("M", 20), ("G", 30))
        for end in ("iB", "B")
    },
    "TiB": 2**40,
    "EiB": 2**60,
}
# Every repetition has an end: a log may be one line of a million digits or blanks.
_DIGITS = r"\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,9})?|\d{1,20}(?:[.,]\d{1,9})?"
_SIZE = rf"(?<!\d)({_DIGITS})\s{{0,8}}(bytes?|[KMGTE]i?B|B)\b"
_IS = r"[\"']?(?:\s{0,40}[=:]\s{0,40}|\s{1,40})"
_WANTED = re.compile(rf"[Tt]ried to allocate\s{{1,40}}{_SIZE}")
_BROKEN = re.compile(r"[Tt]ried(?: to(?: allocate(?: [\d.,]+)?)?)?$")  # goes on in the next line
_FIRST = re.compile(r"[Tt]ried\s+to\s+allocate")
_OUT = re.compile(r"out of memory", re.IGNORECASE)
_LONG = 4 * 2**20  # characters of a log that are read as they are
_AROUND = 2**20  # of a longer one: from its beginning, and before its first message
_THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")
_GRAIN = 2 * 2**20
_SMALL = 2**20
_FIELDS = (
    ("total", re.compile(rf"{_SIZE} total capacity|total capaci?ty of {_SIZE}")),
    ("free", re.compile(rf"of which {_SIZE} is free|{_SIZE} free")),
    ("allocated", re.compile(rf"allocated memory {_SIZE} is allocated|{_SIZE} already allocated")),
    ("unallocated", re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")),
    ("reserved", re.compile(rf"{_SIZE} reserved in total|{_SIZE} cached")),
    ("in_use", re.compile(rf"this process has {_SIZE} memory in use")),
)
_GPU = re.compile(r"\bGPU (\d{1,4})\b")
_RANK = re.compile(r"^\s*\[?(?:default|rank)\s?(\d{1,6})\]?:\s?", re.IGNORECASE)
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PLACE = re.compile(r"""(?:\.pyx?|>)[^",:]{0,80}"?(?:, line |:)\d""")
_SHORT_PLACE = re.compile(r"\.py[:(]\d|\.py in \w")
_ARROW = re.compile(r"^(?:-+>|❱|>|E)\s*\d*\s*(.*)$")
_CARETS = re.compile(r"^[\s^~]+$")
_MOST = 1_000  # messages that are read
_TRACED = 64  # messages whose traceback is looked for
_MOST_WORDS = 20_000
_LONGEST_WORD = 200  # of what can be a model's name
_LONGEST_MESSAGE = 2_000
_LONGEST_FRAME = 500
_REACH = 400  # lines of a traceback that are read before its message


class Message(Record):
    """One message.

    shown: the block as the message shows it, in bytes. low, high: bytes that the tensor can have.
    rank: of the process that wrote it, where lines are marked. line: its number in the log.
    """

    shown: int
    low: int
    high: int
    line: int
    gpu: int | None = None
    rank: int | None = None
    total: int | None = None
    free: int | None = None
    allocated: int | None = None
    unallocated: int | None = None
    reserved: int | None = None
    in_use: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}


class Log(Record):
    """What a log says: messages in order, the frames before the first, innermost last, and hints.

    hints: settings that stand in the log (``micro_batch``, ``seq_len``, ``trainable``, ...).
    words: what can be the name of a model or of a module of transformers.
    """

    messages: tuple[Message, ...]
    frames: tuple[str, ...]
    hints: Mapping[str, Any]
    words: tuple[str, ...]
    world_size: int = 1


def read_log(text: str) -> Log:
    """Messages, frames and hints of a log."""
    head, between, tail = _shortened(text)
    text = _ANSI.sub("", head + tail)
    lines = text.splitlines()
    plain: list[str] = []
    ranks: list[int | None] = []
    for line in lines:
        found = _RANK.match(line) if ":" in line else None
        ranks.append(int(found.group(1)) if found else None)
        plain.append(line[found.end() :] if found else line)
    messages = tuple(_messages(plain, ranks))
    frames: tuple[str, ...] = ()
    for message in messages[:_TRACED]:
        frames = _frames(plain, ranks, message)
        if frames:
            break
    present = {rank for rank in ranks if rank is not None}
    gpus = {message.gpu for message in messages if message.gpu is not None}
    world = max((max(present) + 1) if present else 1, len(gpus), 1)
    messages = tuple(one._replace(line=one.line + between) for one in messages)
    return Log(messages, frames, _hints(text), _words(text), world)


def _shortened(text: str) -> tuple[str, int, str]:
    """Of a log of many megabytes its beginning, which has the settings, and what stands around the
    first message; and how many lines are left out between, where there is none."""
    if len(text) <= _LONG:
        return text, 0, ""
    found = _FIRST.search(text) or _OUT.search(text)
    if found is None:
        return text[:_LONG], 0, ""
    start, end = max(found.start() - _AROUND, _AROUND), found.end() + 4 * _AROUND
    between = text.count("\n", _AROUND, start)
    return text[:_AROUND] + "\n" * min(between, 1), max(between - 1, 0), text[start:end]


def _messages(lines: list[str], ranks: list[int | None]) -> list[Message]:
    messages: list[Message] = []
    for index, line in _lines_with_sizes(lines):
        for found in _WANTED.finditer(line):
            if len(messages) == _MOST:
                return messages
            # A terminal may break the message: its end is on the next lines.
            tail = line[found.start() : found.start() + _LONGEST_MESSAGE]
            if "free" not in tail or "alloc" not in tail[20:]:
                rest = (line[:_LONGEST_MESSAGE].strip() for line in lines[index + 1 : index + 4])
                tail = " ".join((tail, *rest))
            tail = tail.partition("ried to allocate")[2]
            tail = tail.split("ried to allocate")[0]
            shown = _bytes(found.group(1), found.group(2))
            if not 0 < shown <= 2**50:
                continue  # nothing, or an overflow
            low, high = possible_sizes(found.group(1), found.group(2))
            values: dict[str, Any] = {}
            for name, pattern in _FIELDS:
                field = pattern.search(tail)
                if field is not None:
                    number, unit = [group for group in field.groups() if group][:2]
                    size = _bytes(number, unit)
                    values[name] = size if size < 2**44 else None
            gpu = _GPU.search(tail)
            if gpu is not None:
                values["gpu"] = int(gpu.group(1))
            messages.append(Message(shown, low, high, index + 1, rank=ranks[index], **values))
    return messages


def possible_sizes(number: str, unit: str) -> tuple[int, int]:
    """Least and most bytes of a tensor for which torch shows this size."""
    shown = _bytes(number, unit)
    decimals = len(number.partition(".")[2])
    slack = int(_UNITS[unit] * 0.5 * 10**-decimals) if _UNITS[unit] >= 2**30 else 0
    if shown == _GRAIN and not slack:
        return 1, _SMALL
    if shown == 10 * _GRAIN and not slack:
        # A request of 18 to 20 MiB shows the same, and anything between 1 and 10 MiB.
        return _SMALL + 1, 10 * _GRAIN
    if not slack and shown % _GRAIN:
        return max(shown - 512, 1), shown  # no CUDA allocator: not rounded
    low = shown - slack - _GRAIN + 1
    return max(low, 1), shown + slack


def _lines_with_sizes(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that may hold a message, one that is broken before its size with the next."""
    for index, line in enumerate(lines):
        if "ried" not in line:
            continue
        if _BROKEN.search(line.rstrip()) and index + 1 < len(lines):
            line = f"{line.rstrip()} {lines[index + 1][:_LONGEST_MESSAGE].strip()}"
        yield index, line


def _bytes(number: str, unit: str) -> int:
    return round(float(_THOUSANDS.sub("", number).replace(",", ".")) * _UNITS[unit])


def _frames(lines: list[str], ranks: list[int | None], message: Message) -> tuple[str, ...]:
    """Places and code of the traceback that ends in a message; after it, where none is before."""
    end = message.line - 1
    start = max(end - _REACH, 0)
    before = [
        lines[at]
        for at in range(start, end)
        if message.rank is None or ranks[at] is None or ranks[at] == message.rank
    ]
    for at in range(len(before) - 1, -1, -1):
        if _WANTED.search(before[at]):
            before = before[at + 1 :]
            break
    frames = _code(before)
    if not frames:
        frames = _code(lines[end + 1 : end + _REACH])
    own = lines[end].partition("CUDA out of memory")[0]
    if own.strip(" :") and "Error" not in own:
        frames = [*frames, own.strip()]
    return tuple(frames)


def _code(lines: list[str]) -> list[str]:
    frames: list[str] = []
    take = False
    for line in lines:
        text = line.strip("│| ").strip()[:_LONGEST_FRAME]
        if not text or _CARETS.match(text):
            continue
        if ("File " in text and _PLACE.search(text)) or _SHORT_PLACE.search(text):
            frames.append(text)
            take = True
            continue
        arrow = _ARROW.match(text)
        if arrow is not None and arrow.group(1):
            frames.append(arrow.group(1).lstrip("│ "))
        elif take:
            frames.append(text)
            take = False
        elif re.match(r"Failed to clone\(\) tensor|.*Warning: Failed to clone", text):
            frames.append(text)
    return frames


_HINTS = {
    "micro_batch": re.compile(
        r"(?:Instantaneous batch size per device|per_device_train_batch_size|"
        r"micro_batch_size(?:_per_gpu)?|train_micro_batch_size_per_gpu|batch_size_training)"
        rf"{_IS}(\d{{1,9}})(?!\d)"
    ),
    "seq_len": re.compile(
        r"(?:max_seq_length|max_seq_len|cutoff_len|model_max_length|sequence_len|"
        rf"context_length|block_size|max_length|seq_len){_IS}(\d{{2,7}})\b"
    ),
    "trainable": re.compile(
        r"[Tt]rainable param(?:s|eters)\s{0,40}[=:]\s{0,40}(\d[\d,]{0,24})(?![\d,])"
    ),
}
_NAMED = re.compile(
    r"(?:model_name_or_path|base_model|model_name|model_id|model_path|pretrained_model_name_or_path"
    rf"|--model|\bmodel){_IS}[\"']?([\w./-]{{0,200}}\w)"
)
_WORD = re.compile(r"[A-Za-z][\w.-]*(?:[/][\w.-]+)*")


def _hints(text: str) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for name, pattern in _HINTS.items():
        found = pattern.search(text)
        if found is not None:
            value = int(found.group(1).replace(",", ""))
            if value > 0:
                hints[name] = value
    if re.search(rf"load_in_4bit{_IS}[\"']?[Tt]rue|bnb-4bit", text):
        hints["quantized"] = 4
    stages = re.findall(r"zero_?(?:stage)?[_ -]?([23])\b|[\"']stage[\"']:\s*([23])", text, re.I)
    if stages:
        hints["sharding"] = f"zero{min(one or other for one, other in stages)}"
    if "stage3.py" in text:
        hints["sharding"] = "zero3"
    elif "stage_1_and_2.py" in text:
        hints.setdefault("sharding", "zero2")
    return hints


def _words(text: str) -> tuple[str, ...]:
    """Names of models as options give them, then any word with a digit and a dash."""
    named = [found.group(1) for found in _NAMED.finditer(text)]
    loose = [
        part
        for word in dict.fromkeys(word for word in _WORD.findall(text) if len(word) > 4)
        for part in (word, *word.split("/"))
        if len(part) > 4 and any(c.isdigit() for c in part) and ("-" in part or "/" in part)
    ]
    modules = re.findall(r"modeling_[a-z0-9_]+", text)
    distinct = dict.fromkeys(
        word for word in [*named, *modules, *loose] if len(word) <= _LONGEST_WORD
    )
    return tuple(islice(distinct, _MOST_WORDS))


# -- what a traceback's frames say -----------------------------------------------------------------
# A frame is a place (``File ".../adamw.py", line 606, in _multi_tensor_adamw``) or its code. The
# innermost frame that means something decides how likely each kind is; outer frames tell the phase.
# Both stand in ``data/oom.json``: saving and merging come first, for what they call looks like
# loading and gathering.

_SPECIFIC = 0.004  # what a kind still gets that the frames speak against
DATA: Mapping[str, Any] = json.loads(
    read_regular(os.path.join(os.path.dirname(__file__), "data", "oom.json"))
)
_FRAMES = [("|".join(words), kinds) for words, kinds in DATA["frames"]]
_PHASES = [("|".join(words), phase) for words, phase in DATA["phases"]]
_LINEAR = re.compile(r"\b([a-z0-9_]+_proj|lm_head|embed_tokens|fc[12]|c_fc|c_proj|c_attn)\b")


class Evidence(Record):
    """kinds: how likely each kind is by the frames, at most 1; frame: the one that says so.

    phase: as far as the frames tell. names: words that the tensor's name has, by the frame.
    """

    kinds: Mapping[str, float] = {}
    frame: str = ""
    phase: str = ""
    names: tuple[str, ...] = ()

    def weight(self, kind: str) -> float:
        """How well a kind goes with the frames; 1 for each where there are none."""
        return self.kinds.get(kind, _SPECIFIC) if self.kinds else 1.0


def read_frames(frames: Sequence[str]) -> Evidence:
    """The kinds that the innermost telling frame speaks for."""
    text = "\n".join(frames)
    phase = next((name for words, name in _PHASES if re.search(words, text, re.I)), "")
    for frame in reversed(frames):
        # Folders of a frame's file are the user's own words.
        plain = " ".join(w.rpartition("/")[2] if ".py" in w else w for w in frame.split())
        for words, kinds in _FRAMES:
            if re.search(words, plain, re.I):
                names = tuple(dict.fromkeys(_LINEAR.findall(frame)))
                return Evidence(_by_phase(kinds, phase), frame.strip()[:160], phase, names)
    return Evidence(phase=phase)


def _by_phase(kinds: Mapping[str, float], phase: str) -> Mapping[str, float]:
    """The kinds of a frame, those left out that a phase does not have."""
    changed = dict(kinds)
    if phase == "evaluation":
        logits = max(changed.get(kind, 0.0) for kind in ("logits", "logits_fp32"))
        if logits:
            changed["eval_logits"] = max(changed.get("eval_logits", 0), 0.5 * logits)
        changed.pop("logits_gradient", None)
        changed.pop("weight_gradient", None)
    if phase == "save or merge" and "gathered_parameter" in changed:
        changed["state_dict_copy"] = max(changed.get("state_dict_copy", 0), 0.9)
    return changed
