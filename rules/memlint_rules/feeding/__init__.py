"""Rules about feeding the GPU."""
