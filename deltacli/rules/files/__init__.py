"""Rules about data files, deletion vectors, and what a listing of the table shows."""
