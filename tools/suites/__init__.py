"""What `dev.py` needs to run the suites: where their files are, how Java starts, and which soaks there are."""
