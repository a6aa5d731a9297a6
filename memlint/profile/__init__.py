"""Memory snapshots of torch: what was alive at the peak, and where it was allocated."""
