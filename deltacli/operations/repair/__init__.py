"""`repair`: recover what is lost, rebuild what can be computed, and only then remove what is gone.

Start with `repair.py`: a validation, then a step for each finding that something can be done about.
Every file that a step replaces or moves is in the backup first (`backup.py`), and `repair --undo`
puts it back.
"""
