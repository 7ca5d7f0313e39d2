"""Hints of a query: which files of a version the recipient can do without.

A hint is a condition that the recipient applies to the rows again, or a number of rows. Files without a matching row
are left out. A hint that is not understood is skipped with a reason: it never fails, and it never loses a row. Spec:
Read Data from a Table; SQL Expressions for Filtering; JSON predicates for Filtering.
"""
