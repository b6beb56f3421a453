"""The program `sweepd`. `python -m sweepd` runs it where nothing is installed, as on a cluster's
head."""

from sweepd.cli import program

if __name__ == "__main__":
    program()
