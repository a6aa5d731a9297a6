"""What extraction cannot see, written by hand, each line with its source.

``defaults`` says what a default computed at import is; ``behaviours`` what the libraries do where
no signature shows it; ``warned`` and ``ignored`` what warns or does nothing;
``gone`` what takes the place of what is gone. All are data; ``successions`` picks the successor
that fits a target. What only findings need is imported when one is made.
"""
