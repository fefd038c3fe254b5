"""`python -m functions.combined` runs the service."""

from functions.combined.main import main

if __name__ == "__main__":
    main()
