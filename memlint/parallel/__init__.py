"""How a run is shared over many GPUs: strategies, what they move, the search, the launch files."""
