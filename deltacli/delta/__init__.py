"""The Delta protocol: bytes and batches in, values out. No I/O, no clock, no environment, no printing."""
