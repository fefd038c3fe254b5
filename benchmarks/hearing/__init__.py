"""How far what is heard while speaking is from the result, what it costs, and how late it is."""
