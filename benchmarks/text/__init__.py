"""How many texts are spoken a second, and how soon, with Mei and with an AIVMX voice."""
