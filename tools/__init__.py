"""Tools for working on deltacli; not part of the package."""
