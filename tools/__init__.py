"""What is run by hand: nothing here is part of the package."""
