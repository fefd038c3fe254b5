"""A watermark in the sound: 16 bits that only whoever has the key can find.

Chips of 40 ms, divided into bands of 300 Hz, become a little louder or softer. The key says which.
"""
