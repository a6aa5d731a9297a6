"""What each module of a wheel offers for import, and the one name by which a thing is known.

A definition's canonical name is the shortest path among its own and those of the packages around
it that offer it: ``trl.trainer.sft_config.SFTConfig`` is known as ``trl.SFTConfig``.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

from memlint.api.extract.wheel import Assigned, Imported, Module, Wheel


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name leads: a definition or value of this wheel, a module, or something outside.

    ``name`` is None for a module.
    """

    module: str
    name: str | None
    kind: str  # definition, value, module, outside


_PER_FILE_EXPORT = re.compile(r"^__all__\s*[:=]", re.M)
_REQUIRES = re.compile(
    r"^@requires\([^@]*?\)\n(?:@.*\n|[ \t)].*\n){0,99}(?:class|def)\s+(\w+)", re.M
)


class Namespace:
    """Import paths of one wheel."""

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self.modules = wheel.modules
        self._offers: dict[str, dict[str, Place]] = {}
        self._places: dict[tuple[str, str], Place | None] = {}
        self._lazy_names: dict[str, dict[str, str]] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self.modules):
            self._children[name.rpartition(".")[0]].append(name)

    def offers(self, module_name: str) -> dict[str, Place]:
        """Name -> place, for all that ``from module import name`` gives, submodules left out."""
        known = self._offers.get(module_name)
        if known is not None:
            return known
        self._offers[module_name] = {}  # import cycles end here
        found: dict[str, Place] = {}
        module = self.modules[module_name]
        if module.is_lazy:
            for name, home in self._lazy(module).items():
                place = self.place(home, name)
                found[name] = place or Place(home, name, "outside")
            found.setdefault("__version__", Place(module_name, "__version__", "value"))
        else:
            for star in module.stars:
                if star in self.modules:
                    exported = self.modules[star].exported
                    offered = self.offers(star)
                    names = exported if exported is not None else tuple(offered)
                    for name in names:
                        if name in offered and (exported is not None or name[0] != "_"):
                            found[name] = offered[name]
            for name in module.bindings:
                place = self.place(module_name, name)
                if place is not None:
                    found[name] = place
        self._offers[module_name] = found
        return found

    def is_open(self, module_name: str) -> bool:
        """True if the module may offer names that cannot be read off its source."""
        module = self.modules[module_name]
        if module.is_lazy:
            return False
        return module.is_dynamic or any(star not in self.modules for star in module.stars)

    def place(self, module_name: str, name: str) -> Place | None:
        """Where ``name`` of ``module_name`` leads, through imports; None where it is unbound."""
        key = (module_name, name)
        if key in self._places:
            return self._places[key]
        self._places[key] = None
        self._places[key] = result = self._find(module_name, name)
        return result

    def _find(self, module_name: str, name: str) -> Place | None:
        module = self.modules.get(module_name)
        if module is None:
            return Place(module_name, name, "outside")
        if module.is_lazy:
            home = self._lazy(module).get(name)
            return self.place(home, name) if home is not None else self._child(module_name, name)
        binding = module.bindings.get(name)
        if binding is None:
            return self._starred(module, name) or self._child(module_name, name)
        if isinstance(binding, Imported):
            return self._imported(module_name, name, binding)
        return Place(module_name, name, "value" if isinstance(binding, Assigned) else "definition")

    def _imported(self, module_name: str, name: str, binding: Imported) -> Place | None:
        source, original = binding.module, binding.name
        if source not in self.modules:
            return Place(source, original, "outside")
        if original is None:
            return Place(source, None, "module")
        if (source, original) == (module_name, name):
            return Place(f"{source}.{original}", None, "module")
        return self.place(source, original) or self._child(source, original)

    def _starred(self, module: Module, name: str) -> Place | None:
        """Return where a name from a star import may lead."""
        for star in module.stars:
            if star in self.modules and name in (offered := self.offers(star)):
                return offered[name]
        return None

    def _child(self, module_name: str, name: str) -> Place | None:
        child = f"{module_name}.{name}"
        return Place(child, None, "module") if child in self.modules else None

    def _lazy(self, module: Module) -> dict[str, str]:
        """Name -> module that defines it, of a lazily loading package."""
        known = self._lazy_names.get(module.name)
        if known is None:
            known = self._lazy_names[module.name] = self._read_lazy(module)
        return known

    def _read_lazy(self, module: Module) -> dict[str, str]:
        found = dict(module.structure)
        if module.reads_files:
            root = module.name if not module.structure else f"{module.name}.models"
            found = {**self._gathered(root), **found}
        return found

    def _gathered(self, package: str) -> dict[str, str]:
        """Return names that the files under ``package`` declare for export, at any depth."""
        found: dict[str, str] = {}
        for child in self._children[package]:
            module = self.modules[child]
            if module.is_package:
                found.update(self._gathered(child))
                continue
            if child.rpartition(".")[2].startswith(("convert_", "modular_")):
                continue
            if _PER_FILE_EXPORT.search(module.source):
                for name in exported_by_text(module.source):
                    found.setdefault(name, child)
            if "@requires" in module.source:
                for name in _REQUIRES.findall(module.source):
                    found.setdefault(name, child)
        return found

    def canonical(self, place: Place) -> str:
        """Return the one name of a definition or value of this wheel."""
        parts = place.module.split(".")
        for length in range(1, len(parts)):
            outer = ".".join(parts[:length])
            if outer not in self.modules or place.name is None:
                continue
            if self.offers(outer).get(place.name) == place:
                return f"{outer}.{place.name}"
        return f"{place.module}.{place.name}" if place.name is not None else place.module


_ALL = re.compile(r"^__all__\s*(?::[^=\n]+)?\+?=\s*[\[(](.*?)[\])]", re.M | re.S)
_QUOTED = re.compile(r"""["'](\w+)["']""")


def exported_by_text(source: str) -> list[str]:
    """Return ``__all__`` of a file, read without parsing it (there are thousands of them)."""
    return [name for body in _ALL.findall(source) for name in _QUOTED.findall(body)]
