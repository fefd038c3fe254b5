"""What tests of several parts share: builders, hand-written fakes, contracts of the ports."""
