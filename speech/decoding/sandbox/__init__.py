"""The processes that decode: started, confined, spoken to, ended."""
