"""The front door of one table: every operation on it is a method of `Table` or `Paimon`.

Programs call these methods, and so does the command line. A method checks its arguments, makes the request of an
operation and calls it; it decides nothing else. Start reading at `table.py`, which opens tables; the methods of `Table`
are in one module per subject. `prepared_change.py` is the way of every change: planned, agreed to, executed.

Methods import the operation that they call, so that a process loads the operations that it uses and no others: all of
them together take several hundred milliseconds.
"""
