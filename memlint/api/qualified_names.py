"""Names: what a qualified name leads to in the target's releases."""

from collections.abc import Mapping

from memlint.api.records import is_dynamic, newest_lead
from memlint.api.releases import Releases
from memlint.api.tables import PACKAGES, holds

_ALIASED_MODULES = frozenset({"tokenization_utils", "tokenization_utils_fast"})
# Names that lead to other names, one behind the other.
_LONGEST_CHAIN = 4


def followed(releases: Releases, qualname: str, depth: int = _LONGEST_CHAIN) -> str:
    """Return the name that ``qualname`` leads to; itself where it leads nowhere."""
    parts = qualname.split(".")
    package = parts[0]
    if package not in PACKAGES or len(parts) < 2 or not depth:
        return qualname
    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        record = releases.module(module)
        if record is None:
            continue
        name, rest = parts[length], parts[length + 1 :]
        leads = (releases.names(module) or {}).get(name)
        if leads is None:
            leads = newest_lead(record, name)
        if leads is None:
            continue
        if leads == "":
            return qualname
        head = f"{package}.{name}" if leads == "^" else leads
        return followed(releases, ".".join([head, *rest]), depth - 1)
    return qualname


def homes(releases: Releases, package: str, name: str) -> tuple[str, ...]:
    """Full names of the definitions called ``name`` that modules of ``package`` are home to."""
    return tuple(
        sorted(
            f"{module}.{name}"
            for module in set(releases.table(package).modules_with(name))
            if (releases.names(module) or {}).get(name) == ""
        )
    )


def split(releases: Releases, qualname: str) -> tuple[str, str, str]:
    """The longest module of the target that ``qualname`` begins with, the name in it, the rest."""
    parts = qualname.split(".")
    number = releases.number(parts[0])
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        record = releases.module(module)
        if record is not None and holds(record["at"], number):
            return module, ".".join(parts[length : length + 1]), ".".join(parts[length + 1 :])
    raise AssertionError(f"the table of {parts[0]} lacks the package itself")


def is_offered(releases: Releases, module: str, name: str) -> bool | None:
    """True if ``name`` can be imported from a module of the target; None where nobody can tell."""
    names = releases.names(module)
    if names is not None and name in names:
        return True
    package = module.partition(".")[0]
    record = releases.module(module)
    assert record is not None
    open_ended = is_dynamic(record, releases.number(package), name)
    return None if open_ended or _stands_in(releases, package, name, names) else False


def _stands_in(
    releases: Releases, package: str, name: str, names: Mapping[str, str] | None
) -> bool:
    """True if transformers 5 may answer for a name that its modules do not have: tokenizers
    and image processors by their old names, modules by aliases (utils/import_utils.py)."""
    if package != "transformers" or releases.version(package).minor < (5, 0):
        return False
    if name in _ALIASED_MODULES or name.endswith(("Tokenizer", "TokenizerFast")):
        return True
    return name.endswith("ImageProcessorFast") and name[:-4] in (names or {})
