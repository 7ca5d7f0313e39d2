"""Direct access to the parts of pyarrow in use, without importing its larger modules."""
