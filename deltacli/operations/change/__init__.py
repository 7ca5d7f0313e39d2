"""Operations that commit a change of metadata, or create a table from existing files.

Each module has the request, the plan and the change of one command: `alter.py`, `widen_type.py`,
`properties_and_features.py`, `drop_feature.py`, `stats.py`, `convert.py`, `manifest.py`.
"""
