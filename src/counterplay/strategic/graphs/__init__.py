"""Manipulation graphs: known and unknown moves, infinite classes. Source: spec 03."""
