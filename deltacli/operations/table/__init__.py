"""Opening a table and rebuilding its versions."""
