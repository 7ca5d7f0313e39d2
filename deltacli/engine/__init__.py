"""Run tasks: in threads of this process, or on the executors of a Spark cluster.

An engine does not know what a task does. Start with `base.py`, which has the interface (`run`,
`stream`, `run_tasks`, `merge_groups`); `embedded.py` is the engine of one process, and `spark` that of
a cluster. Tasks are in `deltacli.work`.
"""
