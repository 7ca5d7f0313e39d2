"""The execution of changes: everything between the plan of a change and its last write to the table.

About twenty commands change tables, and the same things can go wrong in each of them. After the plan was made, the
directory may be replaced by another table, the log may be rolled back, or another writer may commit first. While a
commit is sent, its answer may be lost. This package handles these cases for all commands. An operation only implements
a `Change`: how the change is planned, and how a plan is executed.

    execute_change(change, table)             change.py
      plan_change
        change.plan(table)                    returns a Plan. Its `base_version` is the version it was made from
      ask                                     the user agrees to the command, or to this plan (consent.py)
      change.execute(ChangeExecution)         the operation writes through the execution (execution.py):
        recheck_table                           is the table still the one that was planned? (rechecks.py)
        commit_plan                             create the next version, retry if other writers commit first (commit.py)
      require_complete                        raise PartlyDone if something could not be done (outcome.py)

Terms that are used throughout the package:

    base version        the version that a plan was made from, together with its table directory and its base commit
    base commit         the commit file of the version that a plan or a commit follows. Its name, size and time identify
                        the table more reliably than the table id, which copies keep
    kind                the effects of a change: it changes metadata, adds files, deletes files (`ChangeKind`)
    effects             lines of text about what a plan does. A plan may replace another one with equal effects
    conflict            another writer has created the version that this run tried to create
    concurrent commit   a commit of another writer that was created after the version that a request was built from

Start reading with `change.py`. The commit protocol is in `commit.py` (retries) and `commit_sender.py` (one attempt).
The changes themselves are in `deltacli.operations`.
"""
