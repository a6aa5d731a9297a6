"""What each trainer makes of a micro-batch: rows, losses, models beside the trained one."""

from collections.abc import Mapping

from memlint.source.record import Record


class TrainerKind(Record):
    """A trainer, as far as memory goes.

    rows: forwarded for each example. preference: its loss is made of log-probabilities of tokens.
    reference: it compares all-weights training with a second model. tiled: its loss has no logits
    from some release of TRL on. generates: it samples completions. values: a second model, of
    values, is trained beside it. labels: of a head that it gives a model which it loads by name; 0:
    the vocabulary.
    """

    rows: int = 1
    preference: bool = False
    reference: bool = False
    tiled: bool = False
    generates: bool = False
    values: bool = False
    labels: int = 0


_GROUPS = TrainerKind(preference=True, tiled=True, generates=True)
_PAIRS = TrainerKind(rows=2, preference=True)
KINDS: Mapping[str, TrainerKind] = {
    "transformers.Trainer": TrainerKind(),
    "trl.SFTTrainer": TrainerKind(tiled=True),
    "trl.DPOTrainer": _PAIRS._replace(reference=True, tiled=True),
    "trl.ORPOTrainer": _PAIRS,
    "trl.CPOTrainer": _PAIRS,
    "trl.KTOTrainer": TrainerKind(preference=True, reference=True, tiled=True),
    "trl.RewardTrainer": TrainerKind(rows=2, labels=1),
    "trl.GRPOTrainer": _GROUPS,
    "trl.RLOOTrainer": _GROUPS._replace(reference=True),
    "trl.PPOTrainer": _GROUPS._replace(reference=True, tiled=False, values=True),
    "loop": TrainerKind(),
}


def head_of(trainer: str | None, head: str | None, labels: int | None) -> tuple[str | None, int]:
    """Return the head of a run's model and its outputs, where the trainer gives it one too."""
    own = kind_of(trainer).labels
    return head or ("classes" if own else None), labels or own


def kind_of(trainer: str | None) -> TrainerKind:
    """Return what is known of a trainer; of none that is named, a loop's."""
    return KINDS[trainer or "loop"]
