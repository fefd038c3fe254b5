"""`python -m functions.live` runs the service."""

from functions.live.main import main

if __name__ == "__main__":
    main()
