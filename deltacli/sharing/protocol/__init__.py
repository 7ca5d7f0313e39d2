"""Delta Sharing on the wire: capabilities, parameters, errors, names in URLs, and the lines of answers. No I/O."""
