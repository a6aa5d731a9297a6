"""Builds the documentation site: ``python -m tools.site`` (needs ``pip install -e '.[docs]'``).

The pages of ``docs/``, the README as the front page, a page for every rule, what changed from
release to release by the tables, and the playground (which needs npm). Written to ``build/site``;
nothing is fetched from elsewhere when it is read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from memlint.api.lookup import Api
from memlint.api.tables import table
from memlint.api.target_versions import parse_target
from memlint.rule import docs
from memlint.rule.file_rules import FILE_RULES
from memlint.rule.registry import known_rules
from memlint.rule.registry import load as load_rules
from tools import playground

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
_EXTRA = [Path(__file__).with_name(name) for name in ("site.css", "site.js")]
_CODE = "https://github.com/torch-memlint/memlint/blob/main/"
_CLASSES = {
    "trl": (
        "trl.SFTConfig", "trl.SFTTrainer", "trl.DPOConfig", "trl.DPOTrainer", "trl.GRPOConfig",
        "trl.GRPOTrainer", "trl.RLOOConfig", "trl.RLOOTrainer", "trl.RewardConfig",
        "trl.RewardTrainer", "trl.KTOConfig", "trl.KTOTrainer",
    ),
    "transformers": (
        "transformers.TrainingArguments", "transformers.Trainer", "transformers.Seq2SeqTrainer",
        "transformers.BitsAndBytesConfig", "transformers.PreTrainedModel.from_pretrained",
    ),
}  # fmt: skip
_NAV = """
nav:
  - Home: index.md
  - Check, fix, estimate: using.md
  - Playground: playground/index.html
  - Rules: rules.md
  - Versions: versions.md
  - What changed:
      - trl: changes-trl.md
      - transformers: changes-transformers.md
  - In an editor: editors.md
  - In old code, and in CI: adoption.md
  - Beside ruff and others: beside-ruff.md
  - Verify: verify.md
  - Trace: trace.md
  - Memory:
      - Prices: prices.md
      - The memory model: memory-model.md
      - Levers: levers.md
      - Settings of a run: settings.md
      - Accuracy: accuracy.md
      - Model types: model-types.md
  - The runtime:
      - At a glance: runtime-overview.md
      - Every name: runtime.md
      - Streamed weights: streaming.md
  - Contributing: contributing.md
"""
_CONFIG = """\
site_name: memlint
docs_dir: {source}
site_dir: {site}
use_directory_urls: false
strict: true
theme:
  name: material
  font: false
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
  features: [navigation.top, content.code.copy, search.highlight]
extra: {{generator: false}}
extra_css: [site.css]
extra_javascript: [site.js]
plugins: [search]
markdown_extensions: [tables, admonition, pymdownx.superfences, {{toc: {{permalink: true}}}}]
validation:
  links: {{not_found: warn, anchors: warn, unrecognized_links: warn}}
not_in_nav: |
  rules/*
  rule-names.md
"""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        yield path.name, _linked(path.read_text(encoding="utf-8"), "docs/")
    yield "index.md", _linked((ROOT / "README.md").read_text(encoding="utf-8"), "")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    yield "contributing.md", _linked(contributing, "")
    for rule in (*FILE_RULES, *load_rules([each.code for each in known_rules()])):
        yield f"rules/{rule.code}.md", docs.page_of(rule)
    for package in _CLASSES:
        yield f"changes-{package}.md", "\n".join(changes(package)) + "\n"


def _linked(text: str, folder: str) -> str:
    """Return a page with its links as the site has them; rules in tables lead to their pages."""

    def link(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        if target.startswith(("https://", "mailto:")) or not target:
            return match[0]
        path = (ROOT / folder / target).resolve().relative_to(ROOT).as_posix()
        if path.startswith("docs/") and path.endswith(".md"):
            return f"]({path.removeprefix('docs/')}{anchor})"
        if path in ("README.md", "CONTRIBUTING.md"):
            name = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}[path]
            return f"]({name}{anchor})"
        return f"]({_CODE}{path}{anchor})"

    text = re.sub(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", link, text)
    return re.sub(r"(?m)^\| (MEM\d{3}) \|", r"| [\1](rules/\1.md) |", text)


def changes(package: str) -> Iterator[str]:
    """Yield what each release of a package added to, and took from, the classes of trainings."""
    yield f"# What changed in {package}"
    yield ""
    yield (
        f"By memlint's tables: options of {package}'s trainers and configurations, newest release "
        f"first. `memlint fix --select MEM9 --target {package}=VERSION` writes what follows."
    )
    releases = table(package).releases
    before: dict[str, frozenset[str]] = {}
    sections: list[list[str]] = []
    for release in releases:
        now = _options(package, release)
        rows = list(_rows(before, now)) if before else []
        if rows:
            head = [f"## {package} {release}", "", "| class | gone | new |", "| --- | --- | --- |"]
            sections.append(["", *head, *rows])
        before = now
    for section in reversed(sections):
        yield from section


def _options(package: str, release: str) -> dict[str, frozenset[str]]:
    api = Api(parse_target(f"{package}={release}", "the site"))
    signatures = {name: api.signature(name) for name in _CLASSES[package]}
    return {
        name: frozenset(signature.parameters)
        for name, signature in signatures.items()
        if signature is not None
    }


def _rows(before: dict[str, frozenset[str]], now: dict[str, frozenset[str]]) -> Iterator[str]:
    for name, options in now.items():
        old = before.get(name, options)
        gone, new = sorted(old - options), sorted(options - old)
        if gone or new:
            cells = (", ".join(f"`{each}`" for each in some) for some in (gone, new))
            yield f"| `{name.partition('.')[2]}` | {' | '.join(cells)} |"


def main() -> int:
    """Write the pages, build the site and return the exit status."""
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages():
        path = SOURCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in _EXTRA:
        shutil.copy(path, SOURCE / path.name)
    playground.build(SOURCE / "playground")
    config = SOURCE.parent / "mkdocs.yml"
    config.write_text(_CONFIG.format(source=SOURCE, site=SITE) + _NAV, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
