"""Where values go: one answer for all who follow a tensor, an object or rows of data."""
