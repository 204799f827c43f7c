"""Studies: claims as experiments, with figures."""
