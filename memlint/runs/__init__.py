"""A training run as one record: its settings, and how each is changed where it is written."""

from collections.abc import Iterator

from memlint.recipes.recipe import Recipe
from memlint.runs.run import Change, Field, TrainingRun
from memlint.script.model import Script


def runs_of(script: Script) -> tuple[TrainingRun, ...]:
    """Return the runs of a script, the same records for all rules."""
    known: tuple[TrainingRun, ...] | None = vars(script).get("runs")
    if known is None:
        known = vars(script)["runs"] = tuple(_read(script))
    return known


def _read(script: Script) -> Iterator[TrainingRun]:
    from memlint.runs.by_loop import EncoderRun, LoopRun, StepRun, loaders_of_training
    from memlint.runs.by_own_module import OwnModuleRun
    from memlint.runs.by_script import ConfigRun
    from memlint.runs.by_torchtune import TorchtuneRun
    from memlint.runs.by_trainer import TrainerRun, has_place
    from memlint.script.loop_models import loop_encoders_of, own_models_of

    for trainer in script.all_training:
        if has_place(trainer):
            yield TrainerRun(script, trainer)
    for config in script.configs:
        if not script.trainers_with(config):
            yield ConfigRun(script, config)
    for model in script.loop_models:
        yield LoopRun(script, model)
    for encoder in loop_encoders_of(script):
        yield EncoderRun(script, encoder)
    for own in own_models_of(script):
        yield OwnModuleRun(script, own)
    if script.steps and script.on_gpu and script.torchtune is not None:
        yield TorchtuneRun(script, script.torchtune)
    elif not script.loop_models:
        yield StepRun(script)
    if len(script.method_calls("DataLoader")) > 1:
        for loader in loaders_of_training(script)[1:]:
            yield StepRun(script, loader)


def run_of_recipe(recipe: Recipe) -> TrainingRun | None:
    """Return the run that a recipe or a launcher's file describes; None where it trains nothing."""
    from memlint.recipes.kinds import Kind
    from memlint.recipes.recipe_training import trains
    from memlint.runs.by_recipe import RecipeRun, TorchtuneRecipe

    if recipe.kind not in (Kind.ACCELERATE, Kind.DEEPSPEED) and not trains(recipe):
        return None
    return recipe.once(TorchtuneRecipe if recipe.kind is Kind.TORCHTUNE else RecipeRun)


__all__ = ["Change", "Field", "TrainingRun", "run_of_recipe", "runs_of"]
