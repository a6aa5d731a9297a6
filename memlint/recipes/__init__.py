"""Recipes: YAML and JSON files that configure training."""
