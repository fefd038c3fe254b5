"""What an RVC voice of full size costs on a processor, and what makes it cost less."""
