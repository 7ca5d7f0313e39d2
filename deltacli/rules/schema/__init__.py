"""Rules about one schema (`schema.py`), and about the change from one schema to the next (`schema_changes.py`)."""
