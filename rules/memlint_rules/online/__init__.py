"""Faults of online methods: GRPO, RLOO, DPO."""
