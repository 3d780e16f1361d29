"""`millrace tune`: find the settings that give the most rows a second from the cores one has."""
