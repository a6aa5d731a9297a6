"""For old code: a baseline of what is there, only what a change touches, ignores by the hundred."""
