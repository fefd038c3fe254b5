"""The engine `waveform`: a graph that gives the samples."""
