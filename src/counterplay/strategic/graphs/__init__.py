"""Manipulation graphs: known and unknown moves, infinite classes.

Source: docs/theory/03-strategic-infinite.md.
"""
