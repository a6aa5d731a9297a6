"""The model of a training script: ``memlint.script.model.build_script(source, api)``."""
