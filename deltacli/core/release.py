"""The version of deltacli: in `--version`, in commits, in documents."""

VERSION = "0.2.0"
COMMIT = "$Format:%H$".partition("$")[0]
"""The commit of a release: `git archive` writes it here. Empty in a clone."""
