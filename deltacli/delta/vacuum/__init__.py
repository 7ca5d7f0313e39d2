"""The input of vacuum decisions: keys of paths, hidden names, kinds of files, partitions of paths.

Spec: Add File and Remove File; Data Files; Deletion Vectors.
"""
