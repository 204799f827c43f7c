"""A zoo of hostile tables, and the contract that every door to people's data keeps with it."""
