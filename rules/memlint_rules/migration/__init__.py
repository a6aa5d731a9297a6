"""Options and names that the target versions do not take."""
