"""The terminal and the standard streams: width, colour, progress, pager, signals."""
