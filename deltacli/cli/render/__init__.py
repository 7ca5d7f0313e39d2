"""How results look: results know their columns, renderers know streams."""
