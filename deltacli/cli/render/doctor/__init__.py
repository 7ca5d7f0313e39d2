"""What `doctor` shows: stores and their permissions, and tables."""
