"""`python -m anonpipe` is the command line."""

from anonpipe.cli import main

if __name__ == "__main__":
    main()
