"""What a change costs besides memory, in a sentence, with the rule whose page says more."""

from collections.abc import Iterable

from memlint.source.record import NamedTuple

SMALLER = "FIT"  # the code of findings that are asked for here alone, and have no page


class Trade(NamedTuple):
    """A sentence on what a change costs. setting, part: the setting that it changes, and a part of
    its new value; empty for any. page: the name of the rule whose page has the sources."""

    setting: str
    part: str
    said: str
    page: str


TRADES = (
    Trade("gradient_accumulation", "", "costs little time where the GPU stays busy",
          "unchecked-activations"),
    Trade("checkpointing", "", "a third more compute: a smaller micro-batch costs less",
          "unchecked-activations"),
    Trade("offload", "activations", "pays only where a run does not fit", "resident-activations"),
    Trade("optimizer", "adafactor", "converges more slowly than Adam", "fp32-optimizer-states"),
    Trade("optimizer", "8bit", "quantized states may cost stability: watch the loss",
          "fp32-optimizer-states"),
    Trade("weights_dtype", "float16", "weights that are trained round small updates away",
          "fp32-weights"),
    Trade("method", "lora", "close to a full fine-tune for styles and formats, less for new"
          " knowledge; a higher rank closes part of the gap", "full-fine-tune"),
    Trade("quantization", "", "a slightly different base, unpacked in every pass, which is slower",
          "unquantized-base"),
    Trade("streamed", "", "a step reads the base twice over the bus: hidden by computing from some"
          " 3,000 to 8,000 tokens on", "resident-frozen-base"),
    Trade("packed", "", "an epoch has fewer steps: check learning rate and batch size",
          "unpacked-short-sequences"),
    Trade("seq_len", "", "what is longer is not learned", "unbounded-sequence-length"),
)  # fmt: skip


def trade_of(changes: Iterable[tuple[str, object]]) -> Trade | None:
    """Return what the first of some changes that has a trade costs; None where none has.

    An adapter over a quantized base has the adapter's: what is learned weighs more than time.
    """
    values = dict(changes)
    if values.get("method") == "qlora":
        values["method"] = "lora"
    for trade in TRADES:
        value = str(values.get(trade.setting)).replace("bfloat16", "float16")
        if trade.setting in values and trade.part in value:
            return trade
    return None
