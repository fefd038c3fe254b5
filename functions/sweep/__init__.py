"""Puts voices back whose event or message was lost, and ends those that were never uploaded."""
