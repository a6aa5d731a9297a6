"""Recipes: YAML and JSON files that configure training.

A recipe is one more origin of settings. It is read as data with the place of every key and value;
nothing in it is constructed or run.
"""
