"""Rules about the paths of files."""
