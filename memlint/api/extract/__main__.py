"""``python -m memlint.api.extract``: fetch the listed wheels and write the tables."""

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from memlint.api.extract.build import Reading, read
from memlint.api.extract.memory_options import candidates
from memlint.api.extract.option_values import encode_values, values
from memlint.api.extract.recipe_schemas import PACKAGES as SCHEMA_PACKAGES
from memlint.api.extract.recipe_schemas import Schema, encode_schemas, read_schema
from memlint.api.extract.tabulate import encode
from memlint.api.extract.wheels import FLOORS, fetch, released, releases, update


def main() -> int:
    """Exit status: 0, or 1 with ``--check`` where the shipped tables differ."""
    parser = argparse.ArgumentParser(
        prog="python -m memlint.api.extract",
        description="Rebuild the API tables from the released wheels.",
    )
    parser.add_argument("packages", nargs="*", metavar="package", help="default: all")
    parser.add_argument(
        "--wheels", type=Path, help="keep the downloads here (default: thrown away)"
    )
    parser.add_argument("--update", action="store_true", help="list new releases first")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    said = "show what the last N releases brought for memory, and fetch nothing"
    parser.add_argument("--memory", type=int, metavar="N", help=said)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    given = parser.parse_args()
    if unknown := set(given.packages) - set(FLOORS):
        parser.error(f"expected packages among {', '.join(FLOORS)}, got {', '.join(unknown)}")
    if given.memory:
        for package, release, name, is_read in candidates(given.memory):
            print(f"{package} {release}: {name}{' (read)' * is_read}")  # noqa: T201
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = given.wheels or Path(scratch)
        listed = update(folder) if given.update else releases()
        differing: list[str] = []
        for package in given.packages or FLOORS:
            versions = list(listed[package])
            with ProcessPoolExecutor(given.jobs) as pool:
                tables = _tables(package, versions, folder, pool)
            for name, data in tables.items():
                path = Path(__file__).parent.parent / "data" / name
                same = path.is_file() and path.read_bytes() == data
                records = len(data.splitlines()) - 1
                described = f"{len(versions)} releases, {records} records"
                print(f"{name}: {described}, {len(data)} bytes, {'same' if same else 'changed'}")  # noqa: T201
                if not same:
                    differing.append(name)
                    if not given.check:
                        path.write_bytes(data)
    return 1 if given.check and differing else 0


def _tables(
    package: str, versions: list[str], folder: Path, pool: ProcessPoolExecutor
) -> dict[str, bytes]:
    """File name -> content of the tables of one package."""
    works = [(package, version, folder) for version in versions]
    if package in SCHEMA_PACKAGES:
        schemas = list(pool.map(_read_schema, works))
        days = [day for day, _ in schemas]
        found = encode_schemas(versions, days, [schema for _, schema in schemas])
        return {f"{package}.table": found}
    readings = list(pool.map(_read, works))
    days = [day for day, _, _ in readings]
    tables = encode(package, versions, days, [reading for _, reading, _ in readings])
    if any(found for _, _, found in readings):
        read_values = [found for _, _, found in readings]
        tables[f"{package}_values.table"] = encode_values(versions, days, read_values)
    return tables


def _read_schema(work: tuple[str, str, Path]) -> tuple[str, Schema]:
    package, version, folder = work
    release = fetch(package, version, folder)
    return released(release), read_schema(package, version, release)


def _read(work: tuple[str, str, Path]) -> tuple[str, Reading, dict[str, tuple[str, ...]]]:
    package, version, folder = work
    wheel = fetch(package, version, folder)
    return released(wheel), read(package, version, wheel), values(package, wheel)


if __name__ == "__main__":
    sys.exit(main())
