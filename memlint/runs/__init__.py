"""A training run as one record: its settings, and how each is changed where it is written."""
