"""`python -m functions.train` runs the job."""

from functions.train.main import main

if __name__ == "__main__":
    main()
