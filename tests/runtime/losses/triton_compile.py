"""Compiles the Triton kernels for a GPU that need not be here, in each of their variants."""

from __future__ import annotations

import itertools
from typing import Any

import triton
from memlint_runtime.losses import triton_ops
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_INTEGERS = ("width", "raw_stride", "numerator_stride", "out_stride")


def compile_kernel(kernel: Any, constants: dict[str, Any], half: str) -> int:
    """Bytes of the machine code for an sm_90 device."""
    signature: dict[str, str] = {}
    for name in kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name.startswith("column"):
            signature[name] = "*i64"
        elif name in ("numerator_ptr", "out_ptr"):
            signature[name] = f"*{half}"
        elif name.endswith("_ptr"):
            signature[name] = "*fp32"
        else:
            signature[name] = "i32" if name in _INTEGERS else "fp32"
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places)
    target = GPUTarget("cuda", 90, 32)
    return len(triton.compile(source, target=target, options={"num_warps": 8}).asm["cubin"])


def main() -> None:
    for half, rich in itertools.product(("bf16", "fp32"), (True, False)):
        for kernel in (triton_ops._absorb_kernel, triton_ops._gradient_kernel):
            flags = {name: rich for name in kernel.arg_names if name.startswith("HAS_")}
            assert compile_kernel(kernel, flags | {"BLOCK": 4096}, half) > 1000


if __name__ == "__main__":
    main()
