"""``memlint profile``: what was alive at the peak of a snapshot of torch."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlint.cli.main import main
from memlint.profile.peak import EARLIER, peaks
from memlint.profile.plain_pickle import PickleError, PlainPickle
from memlint.profile.snapshot import Snapshot, read_snapshot

from . import recorded
from .recorded import BACKWARD, LOSS, MIB, MLP, Recorded, steps


def read(path: Path) -> Snapshot:
    return read_snapshot(str(path), lambda at, size: None)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_peak_is_told_by_kind_and_place(tmp_path: Path, protocol: int) -> None:
    gpu = steps()
    (peak,) = peaks(read(gpu.dump(tmp_path / "snapshot.pickle", protocol)))
    assert peak.events == len(gpu.events)
    # Four layers with states; the activations and log-softmax of a step, a gradient that passes.
    expected = 4 * 8 + 4 * 16 + 4 * 4 + 64 + 2
    assert peak.moment.allocated == expected * MIB
    assert peak.moment.reserved == 1024 * MIB
    assert (
        peak.by_kind
        == {
            "log_softmax": 64 * MIB,
            "optimizer_state": 64 * MIB,
            "weights": 32 * MIB,
            "activation": 16 * MIB,
            "activation_gradient": 2 * MIB,
        }
        or peak.by_kind["activation"] == 16 * MIB
    )
    places = {group.kind: group.place for group in peak.groups}
    assert places["log_softmax"] == "transformers/loss/loss_utils.py:36 in fixed_cross_entropy"
    assert places["activation_gradient"] == "home/u/train.py:31 in step"


def test_gradients_that_outlive_backward_are_those_of_weights(tmp_path: Path) -> None:
    gpu = Recorded()
    kept = gpu.alloc(8 * MIB, BACKWARD)
    passing = gpu.alloc(2 * MIB, BACKWARD)
    gpu.free(passing, BACKWARD)
    gpu.free(kept, recorded.ADAM)
    (peak,) = peaks(read(gpu.dump(tmp_path / "s.pickle")))
    assert peak.by_kind == {"weight_gradient": 8 * MIB, "activation_gradient": 2 * MIB}


def test_what_is_older_than_the_recording_counts(tmp_path: Path) -> None:
    gpu = steps()
    whole = gpu.whole()
    whole["device_traces"][0] = [event for event in gpu.events if event["time_us"] > 1006]
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(whole))
    (peak,) = peaks(read(tmp_path / "s.pickle"))
    (full,) = peaks(read(gpu.dump(tmp_path / "full.pickle")))
    assert peak.moment.allocated == full.moment.allocated
    assert sum(peak.by_kind.values()) == peak.moment.allocated
    # The blocks of the weights are still there, with the frames that allocated them.
    assert peak.by_kind["weights"] == full.by_kind["weights"]


def test_memory_that_was_freed_later_and_never_seen_is_said(tmp_path: Path) -> None:
    gpu = Recorded()
    old = gpu.alloc(32 * MIB, MLP)
    gpu.alloc(8 * MIB, LOSS)
    gpu.free(old, BACKWARD)
    whole = gpu.whole()
    whole["device_traces"][0] = gpu.events[1:]
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(whole))
    (peak,) = peaks(read(tmp_path / "s.pickle"))
    assert peak.by_kind == {EARLIER: 32 * MIB, "log_softmax": 8 * MIB}


def test_text_names_what_helps_and_the_estimate_beside(tmp_path: Path) -> None:
    gpu = steps()
    gpu.event("oom", 0, 512 * MIB, LOSS)
    path = gpu.dump(tmp_path / "s.pickle")
    script = tmp_path / "train.py"
    script.write_text(
        "from trl import SFTConfig, SFTTrainer\n"
        'args = SFTConfig("out", max_length=512, per_device_train_batch_size=1)\n'
        'SFTTrainer("openai-community/gpt2", args=args, train_dataset=rows).train()\n'
    )
    arguments = ["profile", str(path), str(script), "--target", "newest"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "peak: 178.00 MiB allocated" in result.output
    assert "torch could not allocate 512.00 MiB" in result.output
    assert "expandable_segments:True" in result.output
    assert "against log_softmax:" in result.output
    assert "MEM" in result.output.partition("against log_softmax:")[2]
    assert re.search(
        r"weights: \d+\.\d+ MiB read, 32\.00 MiB in the run: reading counts", result.output
    )
    as_json = CliRunner().invoke(main, [*arguments, "--output-format", "json"])
    values = json.loads(as_json.output)
    assert values["gpus"][0]["peak"]["allocated"] == 178 * MIB
    assert values["estimated"]["weights"] > 200 * MIB


def test_events_leave_no_objects_behind(tmp_path: Path) -> None:
    gpu = Recorded()
    for _ in range(7_000):
        # Each event has a list of frames of its own, as torch writes them.
        gpu.free(gpu.alloc(MIB, list(MLP)), list(BACKWARD))
    path = gpu.dump(tmp_path / "s.pickle")
    tracemalloc.start()
    snapshot = read(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(snapshot.traces[0]) == 21_000
    assert len(snapshot.stacks) == 3
    assert most < 100 * 21_000  # a dictionary alone takes 350 bytes


# -- files that are no snapshots, or want something --------------------------------------------


class Runs:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def nested(depth: int) -> bytes:
    return b"\x80\x04" + b"]" * depth + b"a" * (depth - 1) + b"."


HOSTILE = {
    "a call": pickle.dumps(Runs(os.system, "touch ran")),
    "a call in protocol 0": pickle.dumps(Runs(os.system, "touch ran"), 0),
    "an instance": pickle.dumps(Path("x")),
    "an evaluated text": pickle.dumps({"segments": Runs(eval, "1")}),
    "an import alone": b"cos\nsystem\n.",
    "a persistent object": b"\x80\x04\x8c\x01xQ.",
    "a text that is longer than the file": b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"x.",
    "a long number": b"\x80\x04\x8b\x40\x42\x0f\x00" + b"\1" * 1_000_000 + b".",
    "a broken file": pickle.dumps(steps().whole())[:-4000],
    "a key that is a list": b"\x80\x04}](]]e\x8c\x01xs.",
    "a value that nothing made": b"\x80\x04h\x05.",
    "pairs that are odd": b"\x80\x04}(\x8c\x01xu.",
    "a list of other things": pickle.dumps([1, 2, 3]),
    "lists in lists": nested(300_000),
    "nothing": b"",
    "text": b"hello\n",
    "segments of another shape": pickle.dumps({"segments": [1], "device_traces": []}),
    "events of another shape": pickle.dumps(
        {"segments": [], "device_traces": [[{"action": "alloc", "size": "x", "addr": []}] * 2]}
    ),
    "sizes below nothing": pickle.dumps(
        {"segments": [], "device_traces": [[{"action": "alloc", "size": -5, "addr": 1}] * 2]}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_runs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pickle").write_bytes(HOSTILE[name])
    result = CliRunner().invoke(main, ["profile", "s.pickle"])
    assert result.exit_code in (1, 2), result.output
    assert "rror: s.pickle " in result.output, result.output
    assert len(result.output.splitlines()) == 1
    assert sorted(os.listdir()) == ["s.pickle"]


def test_what_a_pickler_writes_is_read_as_it_was() -> None:
    value = {
        "a": [1, -1, 255, 256, 65_536, 2**40, -(2**40), 1.5, None, True, False],
        "text": "grün \ud800", "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "bytes": b"\0\1", "long": "x" * 300, "nested": {"k": {"l": []}}, 7: "number",
    }  # fmt: skip
    value["shared"] = [value["a"], value["a"]]
    for protocol in (2, 3, 4, 5):
        data = pickle.dumps(value, protocol)
        if b"_codecs" not in data:  # bytes of protocol 2 are a call
            assert PlainPickle(io.BytesIO(data), lambda values, _: (values, {})).read_all() == value


def test_too_many_objects_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.profile.plain_pickle.MOST_OBJECTS", 100)
    data = pickle.dumps([[] for _ in range(101)])
    assert pickletools.dis(data, io.StringIO()) is None
    with pytest.raises(PickleError, match="more than 100"):
        PlainPickle(io.BytesIO(data), lambda values, _: (values, {})).read_all()
