"""The discrete-event simulation itself: compiled by Numba, with all of its state in arrays.

It knows services, instances, processors, queues and quotas, but nothing of voices' meaning: what
happens to a voice is a list of steps that `capacity.model.way` writes down.
"""
