"""python -m dpsql, and the console script: signals are looked after before anything else is imported."""


def main() -> None:
    """Run the command line."""
    from dpsql.cli.stop import install

    install()
    from dpsql.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
