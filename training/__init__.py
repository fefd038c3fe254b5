"""How the demo character was made: data, training, export and measured quality."""
