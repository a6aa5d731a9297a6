"""What a model call returns, and what operations make of it."""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from memlint.engine.tensors import Output, Positions, Role, Tensor, Width
from memlint.rule import facts
from memlint.script.model import Script
from tests.memlint.script.scripts import read

HEADER = dedent("""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
""")


def probed(text: str) -> tuple[Script, tuple[Tensor, ...]]:
    """The tensors that the argument of the last ``probe(...)`` may be."""
    script = read(HEADER + dedent(text))
    probes = [
        node
        for node in script.nodes(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "probe"
    ]
    return script, script.tensors(probes[-1].args[0])


def tensor(text: str) -> Tensor:
    found = probed(text)[1]
    assert len(found) == 1, found
    return found[0]


# How the full logits reach ``probe``.
LOGITS = {
    "read off the call": "probe(model(ids).logits)",
    "by name": "out = model(ids)\nprobe(out.logits)",
    "by key": 'out = model(ids)\nprobe(out["logits"])',
    "annotated": "out: Out = model(ids)\nlogits: torch.Tensor = out.logits\nprobe(logits)",
    "by place, without labels": "probe(model(ids)[0])",
    "by place, with labels": "probe(model(ids, labels=y)[1])",
    "unpacked": "loss, logits = model(ids, labels=y)\nprobe(logits)",
    "of a slice, unpacked": "loss, logits = model(ids, labels=y)[:2]\nprobe(logits)",
    "from a helper": """
        def run(model, batch):
            return model(batch).logits
        probe(run(model, ids))
    """,
    "from a helper's tuple": """
        def step(model, batch):
            outputs = model(**batch)
            return outputs.loss, outputs
        loss, outputs = step(model, batch)
        probe(outputs.logits)
    """,
    "to a helper": """
        def get_batch_logps(logits, labels):
            probe(logits)
        get_batch_logps(model(ids).logits, ids)
    """,
    "through a method": """
        class Runner:
            def __init__(self, model):
                self.model = model
            def run(self, batch):
                return self.model(batch).logits
        probe(Runner(model).run(ids))
    """,
    "through a wrapper module": """
        class Wrapper(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, ids):
                return self.inner(ids)
        probe(Wrapper(model)(ids).logits)
    """,
    "in a named tuple": """
        from typing import NamedTuple
        class Result(NamedTuple):
            loss: object
            logits: object
        def run(batch):
            out = model(**batch)
            return Result(out.loss, out.logits)
        loss, logits = run(batch)
        probe(logits)
    """,
    "in a dataclass": """
        from dataclasses import dataclass
        @dataclass
        class Result:
            loss: object
            logits: object
        out = model(**batch)
        probe(Result(out.loss, logits=out.logits).logits)
    """,
    "kept on an object": """
        class Holder: pass
        holder = Holder()
        holder.logits = model(ids).logits
        probe(holder.logits)
    """,
    "prepared, wrapped and unwrapped": """
        from accelerate import Accelerator
        accelerator = Accelerator()
        model, optimizer = accelerator.prepare(model, opt)
        probe(accelerator.unwrap_model(model)(ids).logits)
    """,
    "under DDP": """
        from torch.nn.parallel import DistributedDataParallel as DDP
        model = DDP(model)
        probe(model.module(ids).logits)
    """,
    "forward by its name": "probe(model.forward(ids).logits)",
    "a model of a function elsewhere": """
        from mine import build_model
        model = build_model()
        probe(model(ids).logits)
    """,
}


@pytest.mark.parametrize("case", LOGITS)
def test_logits_of_all_positions(case: str) -> None:
    found = tensor(LOGITS[case])
    assert (found.role, found.width, found.positions) == (Role.LOGITS, Width.LOGITS, Positions.ALL)
    assert found.as_large_as_logits
    assert found.graph is True
    assert found.forward is not None


WIDE = (Width.LOGITS, Positions.ALL)
OPERATIONS: dict[str, tuple[Role, Width, Positions]] = {
    "logits[:, :-1]": (Role.LOGITS, Width.LOGITS, Positions.SHIFTED),
    "logits[..., :-1, :]": (Role.LOGITS, Width.LOGITS, Positions.SHIFTED),
    "logits[:, 1:, :]": (Role.LOGITS, Width.LOGITS, Positions.SHIFTED),
    "logits[:, -1]": (Role.LOGITS, Width.LOGITS, Positions.LAST),
    "logits[:, -1, :]": (Role.LOGITS, Width.LOGITS, Positions.LAST),
    "logits[:, -length:]": (Role.LOGITS, Width.LOGITS, Positions.SOME),
    "logits[:, prompt - 1 : -1]": (Role.LOGITS, Width.LOGITS, Positions.SOME),
    "logits[mask]": (Role.LOGITS, Width.LOGITS, Positions.SOME),
    "logits[0]": (Role.LOGITS, *WIDE),
    "logits[None]": (Role.LOGITS, *WIDE),
    "logits.float()": (Role.LOGITS, *WIDE),
    "logits / temperature": (Role.LOGITS, *WIDE),
    "logits.view(-1, logits.size(-1))": (Role.LOGITS, *WIDE),
    "F.log_softmax(logits, dim=-1)": (Role.LOG_PROBABILITIES, *WIDE),
    "torch.log_softmax(logits, -1)": (Role.LOG_PROBABILITIES, *WIDE),
    "logits.log_softmax(dim=-1)": (Role.LOG_PROBABILITIES, *WIDE),
    "logits.softmax(-1)": (Role.PROBABILITIES, *WIDE),
    "logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1))": (
        Role.LOG_PROBABILITIES, Width.ONE, Positions.ALL,
    ),
    "torch.gather(logits.log_softmax(-1), dim=2, index=ids[..., None]).squeeze(-1)": (
        Role.LOG_PROBABILITIES, Width.ONE, Positions.ALL,
    ),
    "logits.argmax(-1)": (Role.UNKNOWN, Width.ONE, Positions.ALL),
    "logits.logsumexp(dim=-1)": (Role.UNKNOWN, Width.ONE, Positions.ALL),
    "F.cross_entropy(logits.view(-1, 100), y)": (Role.LOSS, Width.ONE, Positions.NONE),
    "nn.CrossEntropyLoss()(logits.flatten(0, 1), y)": (Role.LOSS, Width.ONE, Positions.NONE),
    "F.cross_entropy(logits[:, :-1], y, reduction='none')": (
        Role.LOSS, Width.ONE, Positions.SHIFTED,
    ),
    "logits.log_softmax(-1).mean()": (Role.UNKNOWN, Width.ONE, Positions.NONE),
    "torch.cat([logits, other])": (Role.LOGITS, *WIDE),
    "-out.loss": (Role.LOSS, Width.ONE, Positions.NONE),
    "out.loss / 4 + penalty": (Role.LOSS, Width.ONE, Positions.NONE),
    "out.last_hidden_state": (Role.HIDDEN_STATES, Width.HIDDEN, Positions.ALL),
    "out.hidden_states[-1]": (Role.HIDDEN_STATES, Width.HIDDEN, Positions.ALL),
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations(operation: str) -> None:
    found = tensor(f"out = model(ids)\nlogits = out.logits\nprobe({operation})")
    assert (found.role, found.width, found.positions) == OPERATIONS[operation]


def test_only_some_logits_are_computed() -> None:
    assert tensor("probe(model(ids, logits_to_keep=1).logits)").positions is Positions.LAST
    assert tensor("probe(model(ids, logits_to_keep=n).logits)").positions is Positions.SOME
    assert tensor("probe(model(ids, logits_to_keep=0).logits)").positions is Positions.ALL


def test_a_cast_is_a_copy_and_a_slice_is_a_view() -> None:
    cast = tensor("probe(model(ids).logits.float())")
    assert (cast.dtype, cast.copy) == ("torch.float32", None)
    again = tensor("probe(model(ids).logits.float().to(torch.bfloat16))")
    assert (again.dtype, again.copy) == ("torch.bfloat16", True)
    view = tensor("probe(model(ids).logits[:, :-1])")
    assert view.copy is False
    assert tensor("probe(model(ids).logits[:, :-1].contiguous())").copy is True


def test_what_is_deleted_may_still_be_held() -> None:
    """``logits = out.logits; logits = logits.float(); del out``: the copy is what is left."""
    found = tensor(
        "out = model(ids)\nlogits = out.logits\nlogits = logits.float()\ndel out\nprobe(logits)"
    )
    assert found.operation == "float"
    assert found.passes("logits", "float")


def test_detached_is_not_on_the_graph() -> None:
    assert tensor("probe(model(ids).logits.detach())").graph is False
    assert tensor("probe(model(ids).logits.argmax(-1))").graph is False
    assert tensor("with torch.no_grad():\n    out = model(ids)\nprobe(out.logits)").graph is False


def test_what_an_unknown_function_makes_is_unknown() -> None:
    found = tensor("from mine import tidy\nprobe(tidy(model(ids).logits))")
    assert (found.role, found.width) == (Role.UNKNOWN, Width.UNKNOWN)
    assert found.passes("mine.tidy", "logits")
    assert not found.as_large_as_logits


@pytest.mark.parametrize(
    "text",
    [
        "probe(model(**batch)[0])",  # the loss or the logits
        "probe(model(ids).logits.item())",
        "probe(model(ids).logits.shape)",
        "out = model(ids) if a else None\nprobe(batch.logits if a else 3)",
    ],
)
def test_unknown_stays_unknown(text: str) -> None:
    found = probed(text)[1]
    assert not any(one.as_large_as_logits or one.role is Role.LOSS for one in found)


def test_a_branch_gives_both() -> None:
    found = probed("x = model(ids).logits\nif a:\n    x = x.float()\nprobe(x)")[1]
    assert {one.dtype for one in found} == {None, "torch.float32"}


def test_vocabulary_or_labels() -> None:
    script, (logits,) = probed("probe(model(ids).logits)")
    assert facts.is_vocabulary_wide(script, logits) is True
    script, (logits,) = probed("""
        from transformers import AutoModelForSequenceClassification
        model = AutoModelForSequenceClassification.from_pretrained("q")
        probe(model(ids).logits)
    """)
    assert facts.is_vocabulary_wide(script, logits) is False
    script, (logits,) = probed("""
        def fit(lm):
            out = lm(ids)
            probe(out.logits)
        class Own(nn.Module): pass
    """)
    assert facts.is_vocabulary_wide(script, logits) is None


def test_outputs_are_values() -> None:
    script = read(HEADER + "out = model(ids)\nprint(out)\n")
    (node,) = [one for one in script.nodes(ast.Assign) if script.text(one).startswith("out")]
    assert isinstance(script.value(node.value), Output)


def test_settings_never_see_a_tensor() -> None:
    """A tensor that reaches a configuration is an unknown value there."""
    text = """
        from trl import SFTConfig
        config = SFTConfig("out", packing=model(ids).logits)
    """
    script = read(HEADER + dedent(text))
    assert not script.configs[0].setting("packing").known


def test_indent_of_cases_is_no_matter() -> None:
    body = indent("probe(model(ids).logits)", "    ")
    assert tensor(f"def main():\n{body}\nmain()").as_large_as_logits
