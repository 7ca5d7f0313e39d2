"""Help: pages of commands and groups, and explanations of words.

`pages.py` reads the page of a command from the tree of commands, `text.py` makes lines of it. `words.py` answers
`deltacli help WORD` for a word that is not a command, from the topics that `topics.py` reads from the documentation and
from the code.
"""
