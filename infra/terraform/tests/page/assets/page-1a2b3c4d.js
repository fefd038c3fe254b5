// Stands for a file that the build names by its content.
