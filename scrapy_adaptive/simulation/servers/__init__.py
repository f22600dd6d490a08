"""Models of servers: what a site serves and refuses, each in a class of a few methods."""
