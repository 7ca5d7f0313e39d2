"""The Delta protocol: bytes and batches in, values out. No I/O, no clock, no environment, no printing.

Each subpackage has one section of the protocol, and docstrings name the section (`Spec: …`). Start
with `log/actions.py` (the fields of every action) and `log/segment.py` (which files of the log
rebuild a version).
"""
