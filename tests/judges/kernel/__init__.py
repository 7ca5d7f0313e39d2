"""Delta Kernel (Java) reads what deltacli has written."""
