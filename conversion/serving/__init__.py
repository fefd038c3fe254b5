"""How a process serves: its settings, its server, its CPUs and its end."""
