"""Run tasks: in threads of this process, or on the executors of a Spark cluster.

An engine does not know what a task does. Start with `base.py`, which has the interface (`run`,
`stream`, `spread`) and the engine of one process. Tasks are in `deltacli.work`.
"""
