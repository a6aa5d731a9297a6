"""``memlint profile``: what was alive at the peak of a snapshot of torch."""

from __future__ import annotations

import gzip
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
from memlint.profile.peak import EARLIER, DevicePeak, peaks
from memlint.profile.plain_pickle import PickleError, PlainPickle
from memlint.profile.snapshot import Snapshot, read_snapshot

from . import recorded
from .recorded import BACKWARD, LOAD, LOSS, MIB, MLP, Recorded, steps

STEP = "home/u/train.py:30 in step"


def read(path: Path) -> Snapshot:
    return read_snapshot(str(path), lambda at, size: None)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_peak_is_told_by_kind_and_place(tmp_path: Path, protocol: int) -> None:
    gpu = steps()
    (peak,) = peaks(read(gpu.dump(tmp_path / "snapshot.pickle", protocol)))
    assert peak.events == len(gpu.events)
    # Four layers with states; the activations and log-softmax of a step, a gradient that passes.
    expected = 4 * 8 + 4 * 16 + 4 * 4 + 64 + 2
    assert peak.allocated == expected * MIB
    assert peak.reserved == 1024 * MIB
    assert peak.by_kind == {
        "log_softmax": 64 * MIB,
        "optimizer_state": 64 * MIB,
        "weights": 32 * MIB,
        "activation": 16 * MIB,
        "activation_gradient": 2 * MIB,
    }
    assert {group.kind: (group.place, group.operator) for group in peak.groups} == {
        "log_softmax": (f"{STEP} (transformers/loss/loss_utils.py:36 in fixed_cross_entropy)",
                        "_log_softmax"),
        "optimizer_state": ("home/u/train.py:32 in step", "zeros_like"),
        "weights": ("home/u/train.py:12 in <module> (site-packages/transformers/modeling_utils.py"
                    ":4100 in _load_state_dict_into_model)", "_to_copy"),
        "activation": (f"{STEP} (models/llama/modeling_llama.py:180 in forward)", "mm"),
        "activation_gradient": ("MmBackward0", "mm"),
    }  # fmt: skip
    assert (peak.history, peak.run) == ("whole", "training loop")
    assert gpu.events[peak.index]["frames"] == BACKWARD


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
    assert peak.allocated == full.allocated
    assert sum(peak.by_kind.values()) == peak.allocated
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
    for _ in range(14_000):
        # Each event has a list of frames of its own, as torch writes them.
        gpu.free(gpu.alloc(MIB, list(MLP)), list(BACKWARD))
    path = gpu.dump(tmp_path / "s.pickle")
    tracemalloc.start()
    snapshot = read(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(snapshot.traces[0].actions) == 42_000
    assert len(snapshot.stacks) == 3
    assert most < 100 * 42_000  # a dictionary alone takes 350 bytes


# -- what torch may leave out, or write otherwise ------------------------------------------------


def changed(tmp_path: Path, whole: Any) -> DevicePeak:
    (peak,) = peaks(read(recorded.dump(whole, tmp_path / "changed.pickle")))
    assert sum(peak.by_kind.values()) == peak.allocated
    return peak


def shown(path: Path, *more: str) -> str:
    result = CliRunner().invoke(main, ["profile", str(path), *more])
    assert result.exit_code == 0, result.output
    return result.output


def test_bytes_are_those_that_were_asked_for(tmp_path: Path) -> None:
    gpu = Recorded()
    gpu.alloc(1000, LOAD)
    passing = gpu.alloc(3 * MIB + 4, MLP)
    gpu.free(passing, BACKWARD)
    whole = gpu.whole()
    assert changed(tmp_path, whole).allocated == 3 * MIB + 1004
    del whole["device_traces"][0][0]  # the block of 1000 takes 1024, which is no part of the peak
    assert changed(tmp_path, whole).allocated == 3 * MIB + 1004


def test_control_characters_of_names_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    gpu = Recorded()
    gpu.alloc(4 * MIB, [recorded.user(7, "f\x1b[31m\nFAKE", "\x1b[2Jtrain.py")])
    output = shown(gpu.dump(tmp_path / "s.pickle"))
    assert "train.py:7" in output
    assert "\x1b" not in output
    assert "\nFAKE" not in output


def test_without_time_the_event_tells_when(tmp_path: Path) -> None:
    gpu = steps()
    path = gpu.dump(tmp_path / "s.pickle")
    assert "178.00 MiB allocated at event 60, 0.00 s after the first\n" in shown(path)
    for event in gpu.events:
        event["time_us"] = 10**15 + 25_000 * (event["time_us"] - 1000)
    assert "at event 60, 1.48 s after the first\n" in shown(gpu.dump(path))
    for event in gpu.events:
        del event["time_us"]
    assert "178.00 MiB allocated at event 60\n" in shown(gpu.dump(path))
    assert changed(tmp_path, gpu.whole()).time is None


@pytest.mark.parametrize("skipped", ["free_requested", "free_completed"])
def test_either_half_of_a_free_is_enough(tmp_path: Path, skipped: str) -> None:
    whole = steps().whole()
    expected = changed(tmp_path, whole)
    events = [event for event in whole["device_traces"][0] if event["action"] != skipped]
    peak = changed(tmp_path, whole | {"device_traces": [events]})
    assert peak.by_kind == expected.by_kind


def test_stacks_of_python_alone_leave_autograd_none(tmp_path: Path) -> None:
    gpu = steps()
    expected = changed(tmp_path, gpu.whole()).by_kind
    for event in gpu.events:
        event["frames"] = recorded.of_python(event["frames"])
    gpu.live = {at: (size, recorded.of_python(each)) for at, (size, each) in gpu.live.items()}
    peak = changed(tmp_path, gpu.whole())
    assert peak.by_kind == expected
    assert {group.operator for group in peak.groups} == {""}


def test_frees_without_stacks_are_told_by_their_time(tmp_path: Path) -> None:
    gpu = steps()
    expected = changed(tmp_path, gpu.whole()).by_kind
    for event in gpu.events:
        event["frames"] = event["frames"] if event["action"] == "alloc" else []
    assert changed(tmp_path, gpu.whole()).by_kind == expected
    for event in gpu.events:
        event["frames"] = recorded.of_python(event["frames"])
    gpu.live.clear()
    assert changed(tmp_path, gpu.whole()).by_kind == expected


def test_without_stacks_nothing_is_guessed(tmp_path: Path) -> None:
    gpu = steps()
    for event in gpu.events:
        del event["frames"]
    gpu.live = {address: (size, []) for address, (size, _) in gpu.live.items()}
    peak = changed(tmp_path, gpu.whole())
    assert peak.by_kind == {"other": 178 * MIB}
    assert (peak.run, peak.groups[0].place) == ("", "")


def test_segments_that_grow_are_reserved_as_far_as_they_are_mapped(tmp_path: Path) -> None:
    gpu = Recorded()
    gpu.reserve(100 * MIB, "segment_map")
    gpu.alloc(60 * MIB, MLP)
    gpu.reserve(40 * MIB, "segment_unmap")
    gpu.reserve(500 * MIB, "segment_map")
    peak = changed(tmp_path, gpu.whole())
    assert (peak.allocated, peak.reserved) == (60 * MIB, 100 * MIB)


def test_what_was_refused_is_held_against_what_was_unused_then(tmp_path: Path) -> None:
    gpu = Recorded()
    gpu.reserve(1000 * MIB)
    first = gpu.alloc(900 * MIB, MLP)
    gpu.free(first, MLP)
    gpu.alloc(600 * MIB, MLP)
    gpu.event("oom", 95 * MIB, 300 * MIB, MLP)
    whole = gpu.whole()
    assert (changed(tmp_path, whole).refused, changed(tmp_path, whole).unused) == (
        300 * MIB, 400 * MIB)  # fmt: skip
    hint = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert hint in shown(tmp_path / "changed.pickle")
    whole["allocator_settings"]["expandable_segments"] = True
    assert hint not in shown(recorded.dump(whole, tmp_path / "s.pickle"))
    gpu.events[-1]["size"] = 500 * MIB
    assert hint not in shown(gpu.dump(tmp_path / "s.pickle"))


def test_each_gpu_that_held_anything_has_a_peak_and_the_fullest_is_compared(
    tmp_path: Path,
) -> None:
    small, large = Recorded(), steps()
    small.reserve(16 * MIB)
    small.alloc(MIB, MLP)
    settings = {"expandable_segments": False}
    whole = {"segments": small.segments(1) + large.segments(3), "allocator_settings": settings}
    rest = [{"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 1}]
    whole["device_traces"] = [rest, small.events, [], large.events]
    path = recorded.dump(whole, tmp_path / "s.pickle")
    assert [(peak.device, peak.allocated, peak.reserved) for peak in peaks(read(path))] == [
        (1, MIB, 16 * MIB), (3, 178 * MIB, 1024 * MIB)]  # fmt: skip
    script = tmp_path / "train.py"
    script.write_text(
        "from trl import SFTConfig, SFTTrainer\n"
        'args = SFTConfig("out", max_length=512, per_device_train_batch_size=1)\n'
        'SFTTrainer("openai-community/gpt2", args=args, train_dataset=rows).train()\n'
    )
    assert "the run: 178.00 MiB" in shown(path, str(script), "--target", "newest")


def test_a_snapshot_without_a_history_says_so(tmp_path: Path) -> None:
    gpu = steps()
    older = [
        {"size": size, "requested_size": size, "state": "active_allocated",
         "history": [{"addr": at, "real_size": size, "frames": recorded.of_python(frames)}]}
        for at, (size, frames) in gpu.live.items()
    ]  # fmt: skip
    segment = {"device": 0, "address": recorded.START, "total_size": gpu.reserved, "blocks": older}
    rest = {"action": "free_completed", "addr": 1, "size": 4 * MIB, "stream": 0}
    for whole in ([segment], {"segments": [segment], "device_traces": [[rest]]}):
        peak = changed(tmp_path, whole)
        assert peak.by_kind == {"optimizer_state": 64 * MIB, "weights": 32 * MIB}
        assert (peak.history, peak.allocated) == ("none", 96 * MIB)
    text = shown(tmp_path / "changed.pickle")
    assert "peak: 96.00 MiB allocated, before any event\n" in text
    assert "no history was recorded" in text


def test_what_is_missing_of_a_history_can_be_settled(tmp_path: Path) -> None:
    gpu = steps()
    whole = gpu.whole()
    whole["device_traces"][0] = gpu.events[5:]
    assert changed(tmp_path, whole).history == "cut"
    assert "max_entries" in shown(tmp_path / "changed.pickle")
    for block in whole["segments"][0]["blocks"]:
        block["frames"] = []
    assert changed(tmp_path, whole).history == "late"
    assert "_record_memory_history() before the model" in shown(tmp_path / "changed.pickle")


def test_help_is_for_the_run_that_was_recorded(tmp_path: Path) -> None:
    gpu = Recorded()
    gpu.free(gpu.alloc(64 * MIB, MLP), MLP)
    path = gpu.dump(tmp_path / "s.pickle")
    assert "if backward follows" in shown(path)
    assert "accumulated" not in shown(path)
    gpu.free(gpu.alloc(MIB, BACKWARD), BACKWARD)
    gpu.alloc(MIB, recorded.ADAM)
    text = shown(gpu.dump(path))
    assert "checkpoint around each block" in text
    assert "accumulated" in text
    assert "per_device_train_batch_size" not in text
    assert "MEM" not in text
    trainer = recorded.frame(f"{recorded.SITE}/transformers/trainer.py", 3700, "training_step")
    gpu.alloc(MIB, [*MLP, trainer])
    assert "MEM104: pad batches no further" in shown(gpu.dump(path))


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
    "keys of one hash": pickle.dumps({each * (2**61 - 1): 0 for each in range(1, 9)}),
    "marks in marks": b"\x80\x04" + b"(" * 101 + b"t" * 101 + b".",
    "a trace that is a number": pickle.dumps({"segments": [], "device_traces": [5]}),
    "a trace of other things": pickle.dumps({"segments": [], "device_traces": [[{"addr": 1}] * 2]}),
    "an event without an action": pickle.dumps(
        {"segments": [], "device_traces": [[{"action": "alloc"}, {"addr": 1}]]}
    ),
    "blocks that are missing": pickle.dumps([{"device": 0, "total_size": 1}]),
    "pairs that are odd": b"\x80\x04}(\x8c\x01xu.",
    "a list of other things": pickle.dumps([1, 2, 3]),
    "lists in lists": nested(300_000),
    "nothing": b"",
    "a file of gzip": gzip.compress(pickle.dumps(steps().whole())),
    "an archive": b"PK\x03\x04" + bytes(100),
    "JSON": json.dumps(steps().whole()).encode(),
    "text": b"hello\n",
    "segments of another shape": pickle.dumps({"segments": [1], "device_traces": []}),
    "GPUs of another shape": pickle.dumps(
        [{"device": device, "total_size": 1, "blocks": []} for device in (0, "a")]
    ),
    "sizes of another shape": pickle.dumps(
        [{"device": 0, "total_size": 1, "blocks": [{"state": "active_allocated", "size": "x"}]}]
    ),
    "frames of another shape": pickle.dumps(
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "frames": [5]}] * 2]}
    ),
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
    assert "Error(" not in result.output  # Python's own words
    assert sorted(os.listdir()) == ["s.pickle"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a broken file", "it breaks off at byte"),
        ("text", "it is damaged at byte 0, or of another program; expected a pickle"),
        ("keys of one hash", "a key that is no text"),
        ("marks in marks", "nested deeper"),
        ("a trace that is a number", "`device_traces` of GPU 0 is damaged: expected a list"),
        ("a trace of other things", "`device_traces` of GPU 0 is damaged: expected a list"),
        ("blocks that are missing", "lacks `blocks`; expected `segments`, each with `device`"),
    ],
)
def test_what_is_broken_is_said(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "s.pickle").write_bytes(HOSTILE[name])
    with pytest.raises(PickleError, match=re.escape(words)):
        read(tmp_path / "s.pickle")


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
