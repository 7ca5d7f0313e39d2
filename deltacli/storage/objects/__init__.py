"""What stores of objects have in common: HTTP, faults, walks, and the port on top of the calls of one store."""
