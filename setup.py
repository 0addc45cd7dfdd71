"""What pyproject.toml can't say: a wheel carries the server's page, built here where npm is there."""

from pathlib import Path
from runpy import run_path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPage(build_py):
    """Python's files, and the page's; without npm it says so, and the wheel has no page."""

    def run(self) -> None:
        if not self.editable_mode:  # a checkout builds it when it is first served
            page = run_path(str(Path(__file__).parent / "dpsql/server/page.py"))
            trouble = page["ensure_built"](print)
            if trouble is not None:
                print(trouble)
        super().run()


setup(cmdclass={"build_py": BuildWithPage})
