"""The frontier in a SQL database: SQLite on a local disk, or PostgreSQL."""
