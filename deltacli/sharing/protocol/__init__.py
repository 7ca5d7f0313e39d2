"""Delta Sharing on the wire: capabilities, parameters, errors, names, and the lines of answers. No I/O.

Start with `parameters.py` for requests and with `lines.py` for answers.
"""
