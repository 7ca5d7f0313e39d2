"""SQL expressions that tables keep as text, parsed but never run."""
