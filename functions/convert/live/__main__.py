"""`python -m functions.convert.live` runs the service."""

from functions.convert.live.main import main

if __name__ == "__main__":
    main()
