"""Runs a script under fake tensors and counts what its model, loss and optimizer keep alive."""
