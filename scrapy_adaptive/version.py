"""The version of this package: pyproject.toml and the first log line read it here."""

VERSION = "0.1.0"
