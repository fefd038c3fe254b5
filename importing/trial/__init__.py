"""Tries a bundle: does it work, how does it sound, how fast is it?"""
