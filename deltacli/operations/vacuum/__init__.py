"""`vacuum`: plan and delete the files that no retained version needs.

1. `plan_context.py` reads the clock once, sets the cutoff, and collects guards that both modes share.
2. `candidates.py` compares every file that the log needs (live files, unexpired tombstones, retained commits, other
   tables) with the listing of `full_plan.py`, or with the removed files of `lite_plan.py`. Paths are compared as 64-bit
   hashes; a collision keeps a file.
3. `execute.py` commits START, deletes in batches, and commits END in every case. Before each group of batches
   `rechecking.py` reads the commits that were made since the plan, and keeps what they need.

Start with `plan.py`: the plan is data, and only what it names is ever deleted. Spec: Add File and
Remove File; Change Data Files; Deletion Vectors.
"""
