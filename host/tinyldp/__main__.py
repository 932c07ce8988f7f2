"""`tinyldp` and `python -m tinyldp`: the command line, which can be stopped while it loads."""

import sys


def main() -> int:
    """As cli.main; what that imports takes long enough for a Ctrl-C."""
    try:
        from tinyldp import cli

        return cli.main()
    except KeyboardInterrupt:
        print("tinyldp: stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
