"""What a traceback's frames say about the tensor that was wanted.

A frame is a place (``File ".../adamw.py", line 606, in _multi_tensor_adamw``) or its code. The
innermost frame that means something decides how likely each kind is; outer frames tell the phase.
Both stand in ``data/oom.json``: saving and merging come first, for what they call looks like
loading and gathering.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from memlint.source.bounded import read_regular
from memlint.source.record import Record

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
