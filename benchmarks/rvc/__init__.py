"""The cost of an RVC voice of full size on a processor, and the ways to lower it."""
