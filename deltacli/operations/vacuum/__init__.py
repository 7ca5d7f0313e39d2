"""`vacuum`: plan and delete the files that no retained version needs.

Spec: Add File and Remove File; Change Data Files; Deletion Vectors.
"""
