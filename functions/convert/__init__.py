"""The conversion container: a recording goes in, the character's voice comes out."""
