"""The one way to change a table: plan, consent, recheck, commit, outcome.

Twenty commands change tables, and what can go wrong between a plan and the last write is the same for all of them:
another table is put in the place of this one, its log is rolled back, another writer commits first, an answer is lost.
This package knows these cases once. An operation declares a `Change`: how it is planned, and how a plan is executed.

    execute_change(change, table)
      plan_change            change.plan(table) makes a Plan, which has the Basis that it was made from
      ask                    somebody agrees to the command, or to this plan (consent.py)
      ChangeExecution        change.execute(execution) writes through it:
        recheck_table          is the table still the one that was planned? (rechecks.py)
        commit                 create the next version, rebase or plan again behind other writers (commit.py)
      outcome                PartlyDone if something was left undone

The words of this package:

    basis            the version that a plan was made from, with the directory of the table and the base commit
    base commit      the file of the version that a plan or a commit follows. Its name, size and time identify the
                     table better than the table id, which copies keep
    kind             what a change does to a table: change metadata, add files, delete files (`ChangeKind`)
    effects          lines of text about what a plan does; two plans with equal effects are interchangeable
    winner           a commit of another writer that took the version first

Start reading with `change.py`. The commit protocol is in `commit.py` (attempts) and `commit_sender.py` (one attempt).
`deltacli.operations` has the changes themselves.
"""
