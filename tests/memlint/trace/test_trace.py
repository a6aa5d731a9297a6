"""A script's own model, loss and optimizer under fakes, against real tensors that are counted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.optim.optimizer import register_optimizer_step_post_hook

from memlint.cli.main import run as main
from memlint.memory import Estimate
from memlint.proof.stand_ins import sample_rows
from memlint.trace.beside import Beside, _compared
from memlint.trace.full_models import lengthen_rows
from memlint.trace.tracing import Traced, trace
from tests.fake_steps import LiveBytes

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=96, words=1200):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        hidden = self.table(ids)
        for layer in self.body:
            hidden = hidden + torch.tanh(layer(self.norm(hidden)))
        return self.head(hidden)


device = "cuda" if torch.cuda.is_available() else "cpu"
assert device == "cpu" or torch.cuda.get_device_capability() >= (8, 0)
net = Net().to(device)
"""
OWN_LOSS = (
    NET
    + """\
optimizer = torch.optim.AdamW(net.parameters())
corpus = torch.randint(0, 1200, (48, 65))
for turn in range(50):
    ids = corpus[turn % 12 * 4 :][:4].to(device)
    wanted = ids[:, 1:]
    chances = net(ids[:, :-1]).log_softmax(-1)
    kept = wanted > 20
    picked = chances[kept].gather(1, wanted[kept][:, None])
    loss = -((1 - picked.exp()) * picked).mean()
    optimizer.zero_grad()
    loss.backward()
    size = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if torch.isnan(loss) or not torch.isfinite(size):
        continue
    optimizer.step()
    print(f"{turn}: {loss.item():.3f} of {int(kept.sum())}, {size:.1f}")
"""
)
OWN_GRADIENT = (
    NET
    + """\
class Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx, chances):
        ctx.shape = chances.shape
        return chances.sum()

    @staticmethod
    def backward(ctx, slope):
        parts = [torch.ones(ctx.shape, device=slope.device, dtype=slope.dtype) for _ in range(6)]
        return sum(parts[1:], parts[0]) * slope


optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for turn in range(50):
    Total.apply(net(torch.randint(0, 1200, (4, 64), device=device))).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)
TRAINED_BIAS = (
    NET
    + """\
bias = nn.Parameter(torch.zeros(1, 1, 256, 256, device=device))
optimizer = torch.optim.SGD([bias, *net.parameters()], lr=1e-3)
for turn in range(50):
    heads = net.table(torch.randint(0, 1200, (8, 256), device=device)).view(8, 256, 24, 4)
    heads = heads.transpose(1, 2)
    attended = nn.functional.scaled_dot_product_attention(heads, heads, heads, GIVEN)
    attended.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)
BY_HAND = (
    NET
    + """\
from torch.utils.checkpoint import checkpoint
speeds = [torch.zeros_like(each) for each in net.parameters()]
mean = [each.detach().clone() for each in net.parameters()]
for turn in range(50):
    ids = torch.randint(0, 1200, (4, 64), device=device)
    for half in ids.split(2):
        found = checkpoint(net, half, use_reentrant=False)
        (found.logsumexp(-1).pow(2).mean() / 2).backward()
    with torch.no_grad():
        for each, speed, kept in zip(net.parameters(), speeds, mean):
            speed.mul_(0.9).add_(each.grad)
            each -= 0.01 * speed
            kept.lerp_(each, 0.1)
            each.grad = None
"""
)
OWN_OPTIMIZER = (
    NET
    + """\
class Signs(torch.optim.Optimizer):
    def __init__(self, weights):
        super().__init__(weights, {})

    @torch.no_grad()
    def step(self, closure=None):
        for weight in self.param_groups[0]["params"]:
            state = self.state[weight]
            state.setdefault("mean", torch.zeros_like(weight)).lerp_(weight.grad, 0.1)
            weight.add_(state["mean"].sign(), alpha=-1e-3)


optimizer = Signs(net.parameters())
while True:
    ids = torch.randint(0, 1200, (6, 33), device=device)
    nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)


class _Over(BaseException):
    pass


def really_alive(text: str, backwards: int) -> int:
    """The most bytes that are alive while ``text`` runs on the CPU, with real tensors.

    It ends after two steps of an optimizer of torch's, or before one more backward pass.
    """
    taken = 0
    real = torch.autograd.backward

    def backward(*arguments: object, **keywords: object) -> None:
        nonlocal taken, backwards
        if not backwards:
            raise _Over
        backwards -= 1
        real(*arguments, **keywords)  # type: ignore[arg-type]

    def stepped(*_: object) -> None:
        nonlocal taken
        taken += 1
        if taken == 2:
            raise _Over

    hook = register_optimizer_step_post_hook(stepped)
    counted = LiveBytes()
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Over):
        patch.setattr(torch.autograd, "backward", backward)
        with counted:
            exec(compile(text, "script", "exec"), {"__name__": "__main__"})
    hook.remove()
    return counted.peak


def traced(folder: Path, text: str, **options: object) -> Traced:
    script = folder / "learn.py"
    script.write_text(text)
    return trace(str(script), (), **{"length": None, "rows": 64, "seconds": 200.0, **options})


@pytest.fixture(scope="module")
def own_loss(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return traced(tmp_path_factory.mktemp("own"), OWN_LOSS)


def test_as_many_bytes_as_real_tensors(own_loss: Traced) -> None:
    assert (own_loss.error, own_loss.steps) == ("", 2)
    assert own_loss.peak.total == pytest.approx(really_alive(OWN_LOSS, 9), rel=0.03)


def test_what_a_gradient_of_the_scripts_own_makes_is_counted(tmp_path: Path) -> None:
    told = traced(tmp_path, OWN_GRADIENT)
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total == pytest.approx(really_alive(OWN_GRADIENT, 9), rel=0.03)


@pytest.mark.parametrize("given", ["bias", "attn_mask=bias"])
def test_a_bias_that_is_trained_writes_out_no_scores(tmp_path: Path, given: str) -> None:
    told = traced(tmp_path, TRAINED_BIAS.replace("GIVEN", given))
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total < 8 * 24 * 256 * 256 * 4


def test_gradients_of_a_tied_table_are_added_in_place(tmp_path: Path) -> None:
    """Autograd makes a third one where a mode looks on."""
    tied = NET.replace("words=1200", "words=40_000").replace(
        "self.head = nn.Linear(width, words)", "self.head = lambda h: h @ self.table.weight.T"
    )
    step = (
        "optimizer.zero_grad()\n    net(turn).logsumexp(-1).sum().backward()\n    optimizer.step()"
    )
    told = traced(
        tmp_path,
        f"{tied}optimizer = torch.optim.SGD(net.parameters())\n"
        f"for turn in torch.randint(0, 1200, (9, 2, 4), device=device):\n    {step}\n",
    )
    assert (told.error, told.steps) == ("", 2)
    table = 40_000 * 96 * 4
    assert told.peak.total == pytest.approx(3 * table, rel=0.15)


def test_a_bias_that_no_kernel_takes_writes_out_its_scores(tmp_path: Path) -> None:
    """A GPU's kernels want the numbers of a row side by side."""
    told = traced(tmp_path, TRAINED_BIAS.replace("GIVEN", "bias.mT"))
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total > 8 * 24 * 256 * 256 * 4


def test_what_is_recomputed_goes_to_the_fakes(tmp_path: Path) -> None:
    """Else it saves other tensors than the first time, and torch stops."""
    text = TRAINED_BIAS.replace(
        "nn.functional.scaled_dot_product_attention(heads, heads, heads, GIVEN)",
        "checkpoint(attend, heads, use_reentrant=False)",
    )
    attend = (
        "from torch.utils.checkpoint import checkpoint\n"
        "def attend(heads):\n"
        "    return nn.functional.scaled_dot_product_attention(heads, heads, heads, bias)\n"
    )
    told = traced(tmp_path, text.replace("bias = ", f"{attend}bias = "))
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total < 8 * 24 * 256 * 256 * 4


@pytest.mark.matrix
@pytest.mark.parametrize(("text", "backwards"), [(BY_HAND, 4), (OWN_OPTIMIZER, 9)])
def test_steps_by_hand_and_of_own_optimizers(tmp_path: Path, text: str, backwards: int) -> None:
    told = traced(tmp_path, text)
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total == pytest.approx(really_alive(text, backwards), rel=0.03)


def test_optimizers_step_all_weights_at_once_as_on_a_gpu(tmp_path: Path) -> None:
    """On a CPU they step one weight after the other, with the temporaries of one."""
    text = """\
import torch

net = torch.nn.Sequential(*[torch.nn.Linear(500, 500) for _ in range(8)]).to("cuda")
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(2):
    net(torch.randn(2, 500).to("cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    told = traced(tmp_path, text)
    assert told.peak.total == pytest.approx(5 * 8 * 501 * 500 * 4, rel=0.02)


@pytest.mark.matrix
def test_a_real_run_keeps_alive_what_its_trace_tells(tmp_path: Path, own_loss: Traced) -> None:
    """Without a GPU it is the host's tensors that are counted, and this is said."""
    told = traced(tmp_path, OWN_LOSS, fakes=False)
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total == pytest.approx(own_loss.peak.total, rel=0.03)
    logits = own_loss.peak.bytes_by_kind["logits"]
    assert told.peak.bytes_by_kind["logits"] == pytest.approx(logits, rel=0.01)
    assert ("no GPU is here" in told.how) is (told.reserved == 0)


def test_kinds_and_lines(own_loss: Traced) -> None:
    told = own_loss
    weights = 4 * (1200 * 96 * 2 + 1200 + 3 * (96 * 96 + 96) + 2 * 96)
    last = {phase.name: phase.bytes_by_kind for phase in told.phases}["optimizer step"]
    assert last["weights"] == pytest.approx(weights, rel=0.01)
    assert last["gradients"] == pytest.approx(weights, rel=0.01)
    assert last["optimizer states"] == pytest.approx(2 * weights, rel=0.01)
    largest = next(each for each in told.peak.tensors if each.kind == "logits")
    line = OWN_LOSS.splitlines()[int(largest.name.removeprefix("line ")) - 1]
    assert "log_softmax" in line or "backward" in line
    assert any("read from the GPU" in each for each in told.assumed)


@pytest.mark.matrix
def test_a_model_far_larger_than_this_machine(tmp_path: Path) -> None:
    told = traced(tmp_path, OWN_OPTIMIZER.replace("width=96", "width=65536"))
    assert told.error == ""
    assert told.peak.total > 150 * 2**30


def test_what_cannot_be_traced_is_said_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "broken.py"
    script.write_text(NET + "net(torch.zeros(2, 2, device=device).long()).view(7)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["estimate", "--trace", "broken.py"]) == 1
    said = capsys.readouterr().err
    assert "broken.py cannot be traced: RuntimeError" in said
    assert f"(line {len(NET.splitlines()) + 1})" in said


@pytest.mark.matrix
def test_json_with_arguments_of_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "learn.py"
    script.write_text(OWN_OPTIMIZER.replace("width=96", "width=int(__import__('sys').argv[2])"))
    monkeypatch.chdir(tmp_path)
    options = ["--trace", "learn.py", "--output-format", "json", "--", "--width", "128"]
    assert main(["estimate", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["error"] == ""
    assert told["steps"] == 2
    assert told["phases"][0]["bytes_by_kind"]["weights"] > 2 * 4 * 1200 * 128
    assert told["read"] is None
    assert "does not say which model" in told["unread"] or told["unread"]


@pytest.mark.parametrize(
    ("text", "said"), [("def f(:\n", "does not parse"), (None, "cannot be read: no such file")]
)
def test_a_script_that_is_none_is_told_in_a_line(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "learn.py"
    if text is not None:
        script.write_text(text)
    assert main(["estimate", "--trace", str(script)]) in (1, 2)
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_what_is_read_beside_a_run_is_of_the_releases_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """T5's attention keeps its scores in transformers 5.1, and in later ones does not."""
    seen: list[Estimate] = []

    def beside(script: str, arguments: object, read: Callable[[], Estimate], **_: object) -> Any:
        seen.append(read())
        return 0, "\n".join(
            _compared(Beside(Traced("", phases=seen[-1].phases), seen[-1], ""), seen[-1])
        )

    monkeypatch.setattr("memlint.trace.beside.counted_beside", beside)
    (tmp_path / "requirements.txt").write_text("transformers==5.1.0\n")
    script = tmp_path / "learn.py"
    script.write_text(
        "from trl import SFTTrainer\nSFTTrainer('Qwen/Qwen2.5-0.5B', train_dataset=d)"
    )
    for options, release in (
        ((), transformers.__version__),
        (("--target", "transformers=5.2"), "5.2"),
    ):
        assert main(["estimate", "--trace", *options, str(script)]) == 0
        assert f"read for transformers {release}: " in capsys.readouterr().out


def test_nothing_stays_behind(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    script = project / "learn.py"
    script.write_text(NET + "open('left.txt', 'w').write('x')\nwhile True:\n    pass\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "memlint", "estimate", "--trace", str(script)],
        env={**os.environ, "TMPDIR": str(scratch)}, cwd=project,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # Whoever runs the tests may ignore interrupts, which is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    limit = time.monotonic() + 120
    while not list(scratch.rglob("left.txt")) and time.monotonic() < limit:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode == 130
    assert list(scratch.iterdir()) == []
    assert [each.name for each in project.iterdir()] == ["learn.py"]


@pytest.mark.matrix
def test_a_script_that_takes_too_long(tmp_path: Path) -> None:
    told = traced(tmp_path, "while True:\n    pass\n", seconds=3.0)
    assert "still running after 3 s" in told.error
    assert not list(Path(tempfile.gettempdir()).glob("memlint-trace-*/run/left"))


TRAINER = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

name = "EleutherAI/pythia-70m"
rows = load_dataset("somebody/letters", split="train")
options = SFTConfig(output_dir="made", per_device_train_batch_size=2, max_length=64, bf16=False)
model = AutoModelForCausalLM.from_pretrained(name, dtype="float32")
teach = SFTTrainer(
    model=model, args=options, train_dataset=rows,
    processing_class=AutoTokenizer.from_pretrained(name),
)
teach.train()
"""


@pytest.mark.matrix
def test_a_trainer_beside_what_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sft.py").write_text(TRAINER)
    monkeypatch.chdir(tmp_path)
    assert main(["estimate", "--trace", "sft.py", "--output-format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    weights = told["phases"][-1]["bytes_by_kind"]["weights"]
    assert weights == pytest.approx(4 * told["read"]["parameters"], rel=0.01)
    assert told["peak"]["total"] == pytest.approx(told["read"]["allocated"]["estimate"], rel=0.1)
    assert any("64" in each or "tokens" in each for each in told["assumed"])


def test_only_positions_with_a_label_are_scored(tmp_path: Path) -> None:
    """As TRL does where it has Triton's kernels, on a GPU."""
    rows = (
        'Dataset.from_dict({"prompt": ["the model reads " * 150] * 64, "completion": ["a"] * 64})'
    )
    text = TRAINER.replace("load_dataset\n", "Dataset\n").replace(
        'load_dataset("somebody/letters", split="train")', rows
    )
    text = text.replace("size=2, max_length=64", "size=16, max_length=512, WHICH")
    told = [
        traced(tmp_path, text.replace("WHICH", f"completion_only_loss={only}"))
        for only in (True, False)
    ]
    assert [(each.error, each.steps) for each in told] == [("", 2)] * 2
    few, all_ = (max(phase.total for phase in each.phases[1:3]) for each in told)
    # A tile of the scores of 4,096 positions is as wide as a chunk of the vocabulary.
    assert all_ - few > 2**24


def test_a_large_fake_is_read_as_zeros(tmp_path: Path) -> None:
    """TRL hashes the weights of a reference model to name what it computed with it."""
    text = OWN_LOSS.replace("width=96", "width=4096")
    read = "assert next(net.parameters()).detach().cpu().numpy().tobytes()[:4] == bytes(4)\n"
    told = traced(tmp_path, text.replace("optimizer =", f"{read}optimizer ="))
    assert (told.error, told.steps) == ("", 2)


def test_prompts_are_as_long_as_the_script_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_rows, "text", sample_rows.text)
    monkeypatch.setitem(sample_rows._VALUES, "completion", sample_rows._VALUES["completion"])
    lengthen_rows(100, 40)
    assert [len(row["text"].split()) for row in sample_rows.rows("text", 3)] == [100] * 3
    assert [len(row["prompt"].split()) for row in sample_rows.rows("prompt", 3)] == [40] * 3
    assert len(sample_rows.rows("prompt-conversation", 1)[0]["prompt"][0]["content"].split()) == 40


SAVED = (
    NET.replace("words=1200", "words=40_000")
    + """\
import copy
tied = nn.Linear(96, 40_000, bias=False).to(device)
tied.weight = net.table.weight
torch.save({"net": net.state_dict(), "tied": tied.state_dict(), "turn": torch.tensor(3)}, "kept.pt")
kept = torch.load("kept.pt", WHERE)
assert int(kept["turn"]) == 3
net.load_state_dict(kept["net"])
again = copy.deepcopy(net)
del again
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for turn in range(9):
    net(torch.randint(0, 1200, (4, 8), device=device)).logsumexp(-1).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)


@pytest.mark.parametrize(("where", "times"), [("device", 3), ("None", 3), ("'cpu'", 2)])
def test_what_is_saved_and_loaded_takes_its_memory(
    where: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once on the GPU, with what it shares; nothing of it where it stays on the host."""
    monkeypatch.chdir(tmp_path)
    told = traced(tmp_path, SAVED.replace("WHERE", where))
    assert (told.error, told.steps) == ("", 2)
    last = {phase.name: phase.total for phase in told.phases}["optimizer step"]
    weights = 4 * (40_000 * 96 * 2 + 40_000)
    assert last == pytest.approx(times * weights, rel=0.05)


def test_a_whole_model_is_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = OWN_OPTIMIZER.replace(
        "optimizer = ",
        "torch.save(net, 'net.pt')\nnet = torch.load('net.pt', weights_only=False)\noptimizer = ",
    )
    told, plain = traced(tmp_path, text), traced(tmp_path, OWN_OPTIMIZER)
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total == pytest.approx(plain.peak.total, rel=0.001)


def test_what_waits_on_the_host_takes_no_memory_until_it_is_back(tmp_path: Path) -> None:
    text = NET.replace("words=1200", "words=60_000") + (
        "held = torch.ones(60_000, 100, device=device).cpu()\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)\n"
        "for turn in range(9):\n"
        "    COME\n"
        "    net(torch.randint(0, 99, (2, 2), device=device)).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    sizes = [
        traced(tmp_path, text.replace("COME", come)).peak.total
        for come in ("pass", "back = held.to(device)", "back = held.cuda()")
    ]
    assert [size - sizes[0] for size in sizes[1:]] == [60_000 * 100 * 4] * 2


def test_completions_are_as_long_as_they_may_be(tmp_path: Path) -> None:
    """A token that ends them would have trainers cut them after the first."""
    text = (
        "import torch\n"
        "from transformers import AutoModelForCausalLM, LlamaConfig\n"
        "small = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,\n"
        "    num_attention_heads=2, vocab_size=2000, pad_token_id=4, eos_token_id=[1, 3],\n"
        "    bos_token_id=5)\n"
        "model = AutoModelForCausalLM.from_config(small).cuda()\n"
        "options = type(model.generation_config)(max_new_tokens=8, eos_token_id=6)\n"
        "made = model.generate(torch.full((2, 4), 9).cuda(), generation_config=options)\n"
        "assert made.shape == (2, 12)\n"
        "assert set(made[:, 4:].flatten().tolist()).isdisjoint(range(7))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)\n"
        "for turn in range(2):\n"
        "    model(input_ids=made, labels=made).loss.backward()\n"
        "    optimizer.step()\n"
    )
    told = traced(tmp_path, text)
    assert (told.error, told.steps) == ("", 2)


def test_a_saved_model_has_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own class, too, as trainers load a reference model."""
    monkeypatch.chdir(tmp_path)
    text = (
        "import torch\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "small = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,\n"
        "    num_attention_heads=2, vocab_size=2000)\n"
        "small.save_pretrained('start')\n"
        "model = LlamaForCausalLM.from_pretrained('start').cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)\n"
        "ids = torch.ones(1, 8).long().cuda()\n"
        "for turn in range(2):\n"
        "    model(input_ids=ids, labels=ids).loss.backward()\n"
        "    optimizer.step()\n"
    )
    told = traced(tmp_path, text)
    assert (told.error, told.steps) == ("", 2)
    assert told.peak.total < 4 * 2**20
