"""Rules about data files, deletion vectors, and what a listing of the table shows.

Most ids begin with `data`, `dv` or `storage`.
"""
