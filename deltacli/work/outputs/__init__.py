"""Write an output directory of Parquet files: the rows of data files, or the file actions of a checkpoint.

Start with `output_files.py`, which says how attempts of lost tasks are kept from adding files to a
finished directory.
"""
