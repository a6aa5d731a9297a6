# ruff: noqa: T201, SIM105 (a command line, half of which runs in another environment)
"""Compares the tables with what an installed environment reports, class by class.

    python tests/memlint/api/truth.py /path/to/venv/bin/python [--verbose]

The environment's own interpreter imports every class and function that the tables describe and
prints its fields or parameters with their defaults; this process compares them with the tables at
the versions that the environment has. Exit status 1 where something differs without a reason.

Cost: a minute, most of it importing. The environment needs trl, transformers, peft and accelerate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

# This part runs in the environment: no import of ours, and no syntax newer than its Python.

PACKAGES = ("trl", "transformers", "peft", "accelerate", "torch")


def _plain(value):  # type: ignore[no-untyped-def]
    """``["literal", repr]`` where ``value`` is made of literals, else ``["object", repr]``."""
    import ast
    import enum

    if isinstance(value, enum.Enum) and isinstance(value, str):
        value = str(value.value)
    if isinstance(value, (bool, int, float, str, type(None), list, tuple, dict)):
        if isinstance(value, enum.Enum):
            return ["object", repr(value)]
        text = repr(value)
        try:
            ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return ["object", text]
        return ["literal", text]
    return ["object", repr(value)]


def _described(found):  # type: ignore[no-untyped-def]
    """Parameters of a class or function: name -> default, and whether there are ``**kwargs``."""
    import dataclasses
    import inspect

    result = {}
    if inspect.isclass(found) and dataclasses.is_dataclass(found) and _is_generated(found):
        for field in dataclasses.fields(found):
            if not field.init:
                continue
            if field.default is not dataclasses.MISSING:
                result[field.name] = _plain(field.default)
            elif field.default_factory is not dataclasses.MISSING:
                result[field.name] = _plain(field.default_factory())
            else:
                result[field.name] = ["required", ""]
        return result, False, True
    target = found.__init__ if inspect.isclass(found) else found
    signature = inspect.signature(target)
    has_unknown_keywords = False
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            has_unknown_keywords = True
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        elif not (position == 0 and inspect.isclass(found)):
            if parameter.default is inspect.Parameter.empty:
                result[parameter.name] = ["required", ""]
            else:
                result[parameter.name] = _plain(parameter.default)
    return result, has_unknown_keywords, False


def _constructor_owner(found):  # type: ignore[no-untyped-def]
    for base in found.__mro__:
        if "__init__" in vars(base):
            return base
    return None


def _is_generated(found):  # type: ignore[no-untyped-def]
    """True if the constructor is the one that ``dataclass`` wrote for this very class."""
    owner = _constructor_owner(found)
    if owner is not found:
        return False
    code = getattr(owner.__init__, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def report(names):  # type: ignore[no-untyped-def]
    """What this environment says of ``names``."""
    import importlib
    import importlib.metadata
    import warnings

    warnings.simplefilter("ignore")
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    described, missing = {}, {}
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), attribute)
            described[name] = _described(found)
        except BaseException as error:
            missing[name] = type(error).__name__ + ": " + str(error)[:150]
    return {"versions": versions, "described": described, "missing": missing}


# From here on it is our own interpreter.


def main() -> int:
    from memlint.api.lookup import Api
    from memlint.api.signatures import REQUIRED, Expression
    from memlint.api.tables import table
    from memlint.api.target_versions import Resolved, Target

    python, verbose = sys.argv[1], "--verbose" in sys.argv
    versions = _run(python, [])["versions"]
    api = Api(Target.of({name: Resolved(version, python) for name, version in versions.items()}))
    names = [
        name
        for package in ("trl", "transformers", "peft", "accelerate", "torch")
        for name in table(package).names()
        if not name.endswith(":") and " " not in name and api.exists(name)
        if package != "torch" or name.startswith(("torch.optim.", "torch.utils.", "torch.nn.par"))
    ]
    answer = _run(python, names)
    counts = {"same": 0, "different": 0, "defaults": 0, "computed": 0}
    counts.update({"not importable": 0, "not described": 0})
    kinds = {"config classes": 0, "other classes and functions": 0}
    for name in names:
        if name not in answer["described"]:
            counts["not importable"] += 1
            if verbose:
                print(f"? {name}: {answer['missing'][name]}")
            continue
        real, has_unknown_keywords, is_dataclass = answer["described"][name]
        signature = api.signature(name)
        if signature is None:
            counts["not described"] += 1
            if verbose or is_dataclass:
                print(f"- {name}: not described")
            continue
        ours = signature.parameters
        kinds["config classes" if is_dataclass else "other classes and functions"] += 1
        problems = []
        for parameter, (kind, text) in real.items():
            if parameter not in ours:
                if not signature.accepts_any:
                    problems.append(f"{parameter}: not in the table")
                continue
            counts["defaults"] += 1
            default = ours[parameter].default
            if isinstance(default, Expression) and kind != "required":
                # A default that is no literal (a torch dtype, a class): its text is all we keep.
                counts["computed"] += 1
                if kind == "literal" and not _made_anew(default.text):
                    problems.append(f"{parameter}: {text} is kept as expression {default.text}")
            elif default is REQUIRED:
                if kind != "required":
                    problems.append(f"{parameter}: {text}, required in the table")
            elif kind != "literal" or repr(default) != text:
                problems.append(f"{parameter}: {text or kind}, {default!r} in the table")
        # A decorator that takes old names does not show in the signature.
        extra = [name for name in ours if name not in real and not ours[name].deprecated]
        if extra and not has_unknown_keywords:
            problems.append(f"only in the table: {', '.join(extra)}")
        order = [parameter for parameter in ours if parameter in real]
        if order != [parameter for parameter in real if parameter in ours]:
            problems.append("order differs")
        counts["different" if problems else "same"] += 1
        for problem in problems:
            mark = "CONFIG" if is_dataclass else "other"
            print(f"{mark} {name}: {problem}")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(", ".join(f"{count} {what}" for what, count in {**kinds, **counts}.items()))
    return 1 if counts["different"] else 0


def _made_anew(expression: str) -> bool:
    """True if the default is another one in every process: the time, the name of a file."""
    return any(word in expression for word in ("perf_counter", "time()", "__file__", "sys.argv"))


def _run(python: str, names: list[str]) -> dict[str, dict[str, list[object]]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python, __file__, "--report"],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    answer: dict[str, dict[str, list[object]]] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    if sys.argv[1:] == ["--report"]:
        wanted = json.load(sys.stdin)
        import contextlib

        with contextlib.redirect_stdout(sys.stderr):
            reported = report(wanted)
        print(json.dumps(reported))
    else:
        sys.exit(main())
