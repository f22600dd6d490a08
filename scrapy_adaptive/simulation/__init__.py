"""A crawl in virtual time: the governor against models of servers, hours in seconds."""
