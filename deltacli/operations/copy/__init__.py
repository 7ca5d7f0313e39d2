"""`copy`: a proven copy of a table elsewhere, made once, or a replica that is brought up to date."""
