"""The program `sweepd`. `python -m sweepd` runs it where nothing is installed, as on a cluster's
head."""

from sweepd import cycles

cycles.look_seldom()  # before anything large is imported

from sweepd.cli import program  # noqa: E402

if __name__ == "__main__":
    program()
