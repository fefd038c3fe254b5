"""Whether the capacity planner's simulator predicts what is measured on this machine."""
