"""Hospitals that train one model together, and leave once it is good enough for them."""
