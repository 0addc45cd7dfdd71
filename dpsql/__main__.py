"""python -m dpsql, and the console script: signals are looked after before anything else is imported."""

import os
import sys

# Built in, and without a stub: `signal` takes time to import.
from _signal import SIG_IGN, SIGINT, SIGTERM, getsignal, signal  # type: ignore[import-not-found]


def _end(number: int, _: object) -> None:
    """Until `cli.stop` takes over: nothing was opened yet, and Python's own handler would show a traceback."""
    os.write(2, b"stopped; nothing was charged\n")
    os._exit(128 + number)


def main() -> None:
    """Run the command line."""
    for number in (SIGINT, SIGTERM):
        if getsignal(number) is not SIG_IGN:
            signal(number, _end)
    from dpsql.cli.stop import install

    install()
    try:
        from dpsql.cli.main import main as run
    except (ImportError, AttributeError, TypeError):
        from dpsql.core.extras import blamed

        if (refusal := blamed()) is None:
            raise
        print(f"error: {refusal.message}\nhelp: {refusal.hint}", file=sys.stderr)
        sys.exit(refusal.exit_code)
    run()


if __name__ == "__main__":
    main()
