"""Protocol versions, table features and table properties: what they mean and how they change.

Start with `features.py`, which says for each feature whether deltacli only knows its name, reads
it, or writes it. `clients.json` has the measured facts about other clients. To add a property, add
it to `known_properties.py`; to add a feature, add a row to `FEATURES`, a table that uses it to
tools/clients/tables.py, and run `python3 dev.py clients`.
"""
