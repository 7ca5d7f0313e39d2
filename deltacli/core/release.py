"""The version of deltacli: in `--version`, in commits, in documents."""

VERSION = "0.2.0"
