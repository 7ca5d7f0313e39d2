"""The care of many tables by a policy file: `deltacli fleet`.

`policy_file` reads the policies, `planning` finds the tables and what is due, `running` does it and
keeps a journal, and `reporting` shows the state of the fleet. Start with `policy_file/model.py`,
then read `status.py` for the alerts.
"""
