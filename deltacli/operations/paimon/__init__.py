"""Operations on Paimon tables: what they state, changes of their schema, validation.

Nothing here creates snapshots. `alter.py` is the only module that creates schema files; start
there.
"""
