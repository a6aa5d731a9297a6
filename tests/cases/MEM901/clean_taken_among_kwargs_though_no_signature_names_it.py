# about: Taken, among ``**kwargs``, though no signature names it.
from transformers import PretrainedConfig

config = PretrainedConfig(num_labels=3)
