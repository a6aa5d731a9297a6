"""Small inputs that ask for much: growth by doubling, nesting, merging and repetition."""
