"""Shared vocabulary of all areas; imports no area."""
