"""The engine `harmonic`: content and pitch in, spectral envelopes out, synthesis of our own."""
