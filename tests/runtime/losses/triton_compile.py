"""Compiles the Triton kernels for GPUs that need not be here, and tables what they cost.

    python -m tests.runtime.losses.triton_compile [--all]

Every combination of the constants that the code can launch: each of a kernel's flags, the types of
half precision, each width of a tile. Entries for each thread grow with the width up to 1,024, so
that without `--all` only the widest, with bf16, is compiled. Compiled are sm_80
(A100), sm_90 (H100), sm_100 (B200) and sm_120 (RTX 50). Registers and bytes of spilled registers
are the assembler's; occupancy is the share of a processor's warps that its registers and shared
memory leave room for; bytes are those that a kernel must move for each entry of a tile.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from memlint_runtime.attention.kernels import triton_merge
from memlint_runtime.losses import planning, triton_ops
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

KERNELS = {
    "absorb": triton_ops._absorb_kernel,
    "gradient": triton_ops._gradient_kernel,
    "attention merge": triton_merge._merge_kernel,
}
_INTEGERS = ("width", "t", "v", "n", "depth", "first", "dimension")
_ALIGNED = (
    "depth",
    "hidden_stride",
    "weight_stride",
    "out_stride",
    "raw_stride",
    "numerator_stride",
)


@dataclass(frozen=True)
class Device:
    """One processor of a GPU: registers, warps and bytes of shared memory that it has."""

    capability: int
    warps: int
    shared_bytes: int
    registers: int = 65536


DEVICES = (
    Device(80, 64, 164 * 1024), Device(90, 64, 228 * 1024), Device(100, 64, 228 * 1024),
    Device(120, 48, 100 * 1024),
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A kernel with the constants of one launch."""

    kernel: str
    flags: tuple[str, ...]
    half: str
    width: int
    raw: str = "fp32"

    @property
    def bytes_per_entry(self) -> float:
        """Moved for each entry of a tile whose accumulation type is float32; the row's own few
        numbers are left out."""
        half = 4 if self.half == "fp32" else 2
        if self.kernel == "attention merge":
            return 3 * half
        written = half if self.kernel == "gradient" or "HAS_NUMERATORS" in self.flags else 0
        return (4 if self.raw == "fp32" else 2) + written


@dataclass(frozen=True)
class Cost:
    registers: int
    spilled_bytes: int
    shared_bytes: int
    warps: int

    def occupancy(self, device: Device) -> float:
        # Registers are given out by the warp in units of 256.
        for_a_warp = -(-self.registers * 32 // 256) * 256
        programs = device.registers // (for_a_warp * self.warps)
        if self.shared_bytes:
            programs = min(programs, device.shared_bytes // (self.shared_bytes + 1024))
        return min(1.0, programs * self.warps / device.warps)


def variants(*, every_width: bool = False) -> Iterator[Variant]:
    widest = triton.next_power_of_2(planning._LARGEST_VOCABULARY)
    widths = [2**power for power in range(widest.bit_length())] if every_width else [widest]
    halves = ("bf16", "fp16", "fp32") if every_width else ("bf16",)
    for name, kernel in KERNELS.items():
        flags = [flag for flag in kernel.arg_names if flag.startswith("HAS_")]
        if name == "attention merge":
            yield from (Variant(name, given, "bf16", 256) for given in ((), ("HAS_INDEX",)))
            continue
        for chosen in itertools.product((False, True), repeat=len(flags)):
            given = tuple(flag for flag, on in zip(flags, chosen, strict=True) if on)
            for half, width in itertools.product(halves, widths):
                yield Variant(name, given, half, width)
        # Logits in half precision: those of a chunk are kept, those of a tile written over.
        kept = tuple(flag for flag in flags if flag != "HAS_NUMERATORS")
        for given in dict.fromkeys((kept, tuple(flags))):
            yield Variant(name, given, "bf16", widest, "bf16")


def launch_of(variant: Variant, device: Device) -> dict[str, Any]:
    """Constants, warps and stages with which the code launches a variant."""
    if variant.kernel == "attention merge":
        rows, warps = triton_merge.TOKENS, triton_merge.WARPS
        return {"TOKENS": rows, "BLOCK_D": variant.width, "num_warps": warps}
    return triton_ops._launch(variant.width)


def compiled(variant: Variant, device: Device) -> Cost:
    """What the assembler for the device makes of a variant."""
    kernel = KERNELS[variant.kernel]
    launch = launch_of(variant, device)
    constants: dict[str, Any] = {
        name: name in variant.flags for name in kernel.arg_names if name.startswith("HAS_")
    } | {name: value for name, value in launch.items() if name in kernel.arg_names}
    signature: dict[str, str] = {}
    for name in kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name.startswith(("column", "index")):
            signature[name] = "*i64"
        elif name in ("numerator_ptr", "out_ptr", "hidden_ptr", "weight_ptr", "part_ptr"):
            signature[name] = f"*{variant.half}"
        elif name == "raw_ptr":
            signature[name] = f"*{variant.raw}"
        elif name.endswith("_ptr"):
            signature[name] = "*fp32"
        else:
            signature[name] = "i32" if name in _INTEGERS or name.endswith("_stride") else "fp32"
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    # Of tensors that the caching allocator makes, and of sizes as models have them.
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(kernel.arg_names)
        if signature[name] != "constexpr" and (name.endswith("_ptr") or name in _ALIGNED)
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=places, attrs=aligned)
    target = GPUTarget("cuda", device.capability, 32)
    warps = launch["num_warps"]
    options = {name: value for name, value in launch.items() if name.startswith("num_")}
    made = triton.compile(source, target=target, options=options)
    if shared := written_under_readers(made.asm["ttgir"]):
        raise AssertionError(f"{variant} writes what other threads read: {sorted(shared)}")
    registers, spilled = resources(made.asm["cubin"])
    return Cost(registers, spilled, made.metadata.shared, warps)


def written_under_readers(code: str) -> set[str]:
    """Arguments that are written, and read by threads that do not write the same places.

    code: Triton's GPU dialect. Threads are laid out by layouts: where a tensor is loaded in another
    layout than it is stored in, one warp may read what another has written, whenever it runs.
    """
    root, read, written = {}, set(), set()
    for line in code.splitlines():
        words = re.match(r"\s*(?:(%\S+) = )?tt\.(\w+) (%\w+)[^:]*: (.*?)(?: loc\(.*)?$", line)
        if not words:
            continue
        name, operation, pointer, types = words.groups()
        argument = root.get(pointer, pointer)
        layout = re.search(r"!tt\.ptr<\w+>, (#.*)>$", types)
        if name and operation in ("splat", "addptr", "broadcast", "expand_dims"):
            root[name] = argument
        elif operation == "load" and layout:
            read.add((argument, layout[1]))
        elif operation == "store" and layout:
            written.add((argument, layout[1]))
    return {
        one for one, where in written for other, place in read if one == other and where != place
    }


def resources(binary: bytes) -> tuple[int, int]:
    """Registers of a thread, and bytes of its registers that live in memory."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run(
            [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
    return found["REG"], found["STACK"] + found["LOCAL"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--all", action="store_true", help="every width and type")
    parser.add_argument("--sm", type=int, action="append", help="for this one only; repeatable")
    given = parser.parse_args()
    every = given.all
    write = sys.stdout.write
    write("| kernel | type | width | warps | B/entry | sm | variants | registers | spilled B |")
    write(" shared B | occupancy |\n" + "| --- " * 11 + "|\n")
    spilled = 0
    by_launch = sorted(variants(every_width=every), key=lambda v: (v.kernel, v.half, v.width))
    for (kernel, half, width), group in itertools.groupby(
        by_launch, key=lambda v: (v.kernel, v.half, v.width)
    ):
        alike = list(group)
        for device in (one for one in DEVICES if given.sm is None or one.capability in given.sm):
            costs = [compiled(one, device) for one in alike]
            spilled += sum(cost.spilled_bytes > 0 for cost in costs)
            registers = [cost.registers for cost in costs]
            moved = sorted({one.bytes_per_entry for one in alike})
            full = [cost.occupancy(device) for cost in costs]
            write(
                f"| {kernel} | {half} | {width} | {costs[0].warps} | "
                f"{'-'.join(f'{each:g}' for each in moved)} | {device.capability} | {len(alike)} | "
                f"{min(registers)}-{max(registers)} | {max(c.spilled_bytes for c in costs)} | "
                f"{max(c.shared_bytes for c in costs)} | {min(full):.0%}-{max(full):.0%} |\n"
            )
            sys.stdout.flush()
    write(f"variants that spill registers: {spilled}\n")
    return int(spilled > 0)


if __name__ == "__main__":
    sys.exit(main())
