"""A run of the linter: files are read, checked, fixed, remembered, over several processes."""
