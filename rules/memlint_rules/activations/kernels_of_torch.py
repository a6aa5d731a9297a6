"""Attention of PyTorch whose fused kernels a script switches off."""

from collections.abc import Iterator

from memlint.rule import MISSING, Call, Finding, Level, Script, advise

_KERNELS = ("flash", "mem_efficient", "cudnn")
_ALONE = (["SDPBackend.MATH"], ["[SDPBackend.MATH]"])


def without_kernels(script: Script, message: str) -> Iterator[Finding]:
    """``enable_flash_sdp(False)``, ``sdpa_kernel(SDPBackend.MATH)``: sdpa by plain products."""
    plain = (MISSING, None, "sdpa")
    loads = [one for one in script.model_loads if one.setting("attn_implementation").value in plain]
    if not any(map(script.trains_model, loads)):
        return
    off = [name for name in _KERNELS if any(_switched_off(script, name))]
    if off[:2] == [*_KERNELS[:2]]:
        # Where cuDNN's is left on, it runs on some GPUs and shapes.
        level = Level.WASTE if len(off) == len(_KERNELS) else Level.HINT
        place = next(_switched_off(script, off[0])).span
        yield Finding(place, message, advise("Leave PyTorch's kernels on"), level)
    for call in script.calls_to("torch.nn.attention.sdpa_kernel"):
        if [script.text(one) for one in call.node.args] in _ALONE and _trains_under(script, call):
            yield Finding(call.span, message, advise("Let PyTorch choose the kernel"))


def _switched_off(script: Script, kernel: str) -> Iterator[Call]:
    for call in script.calls_to(f"torch.backends.cuda.enable_{kernel}_sdp"):
        is_off = [script.python(one) for one in call.node.args] == [False]
        if is_off and not (call.conditional or any(script.functions_around(call.node))):
            yield call


def _trains_under(script: Script, manager: Call) -> bool:
    """True if a context of a kernel is around a pass of a training step."""
    around = script.span(script.statement(manager.node))
    trained = (one for one in script.forwards if one.in_training_step)
    return any(around.contains(one.span) for one in trained if one.gradients is not False)
