"""`vacuum`: what no retained version needs, as a plan; and its deletion.

Spec: Add File and Remove File; Change Data Files; Deletion Vectors.
"""
