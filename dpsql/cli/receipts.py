"""Signed receipts: dpsql key prints the public key that verifies them, dpsql verify checks a file and its receipt."""

from __future__ import annotations

import json
import os

import click
from click.core import ParameterSource

from dpsql.cli.options import policy_option


@click.command()
@click.option("--rotate", is_flag=True, help="Make a new signing key; receipts of the old one keep their signatures.")
@click.option("--steward", is_flag=True, help="I am the data's steward: with --rotate.")
@policy_option
def key(policy: str, rotate: bool, steward: bool) -> None:
    """Print the public key that verifies receipts of this policy's ledger.

    Give it to whoever gets files with receipts, in another way than with those files: on your web page, in a
    repository, by hand. The output is a file of keys as `dpsql verify --key FILE` takes it: one key a line and a name.
    Keys that were replaced are in comments: take the # away to believe what they signed. The secret key lies beside the
    ledger, in LEDGER.sign, or in DPSQL_SIGNING_KEY; it is made when it is first needed.
    """
    if rotate != steward:
        both = "--rotate is the steward's act: add --steward" if rotate else "--steward goes with --rotate"
        raise click.UsageError(both)
    from dpsql.accounting.signing import Signer
    from dpsql.accounting.store import located
    from dpsql.policy.model import Policy

    loaded = Policy.load(policy)
    signer = Signer(located(loaded.ledger_path))
    if rotate:
        signer.rotate()
        click.echo(
            "a new signing key: give its public half to your readers. If the old one leaked, tell them to drop it, and "
            "sign again what they keep: dpsql budget --replay ID -o FILE --receipt",
            err=True,
        )
    click.echo(f"{signer.public} {loaded.ledger_path.name}")
    for line in signer.retired:
        click.echo(f"# {line}")


KEYS = "DPSQL_KEYS"


@click.command()
@click.argument("file")
@click.option(
    "--key",
    "keys",
    metavar="KEY",
    multiple=True,
    help=f"A public key that you believe (ed25519:…), or a file of them; default: the file in {KEYS}.",
)
@click.option("--receipt", metavar="PATH", help="The receipt, if it isn't FILE.receipt.json.")
@click.option("--json", "as_json", is_flag=True, help="What the receipt states, as JSON.")
@policy_option
@click.pass_context
def verify(
    ctx: click.Context, file: str, keys: tuple[str, ...], receipt: str | None, as_json: bool, policy: str
) -> None:
    """Check that FILE is what its signed receipt says, and who signed that.

    It needs the public key of whoever made the file, and neither data nor ledger nor policy: `dpsql key` prints it
    there. Get it in another way than with the file. Who has the ledger may name the policy instead of a key.
    Exit code 0: file and receipt are as they were signed; 6: something was changed, is missing, or another key signed.
    """
    believed = _believed(keys, policy, named=ctx.get_parameter_source("policy") is not ParameterSource.DEFAULT)
    from dpsql.answer.about import lines
    from dpsql.answer.receipts import verify as check
    from dpsql.answer.render import printable

    found = check(file, key=believed, receipt=receipt)
    if as_json:
        click.echo(json.dumps({**found.statement, "key": found.key, "signer": found.name}, indent=2))
        return
    click.echo(f"{file}: as it was signed by {printable(found.name) or 'the key that you named'} ({found.key})")
    for line in lines(found.statement):
        click.echo(line)
    if (name := found.statement["file"]["name"]) != found.file.name:
        click.echo(f"it was called {printable(str(name))} when it was signed", err=True)


def _believed(keys: tuple[str, ...], policy: str, *, named: bool) -> dict[str, str]:
    """The keys that count. A policy counts only where it was named: one that lies around came with the file, maybe."""
    from dpsql.accounting.signing import Signer, read_keys

    found: dict[str, str] = {}
    listed = keys or ((os.environ[KEYS],) if os.environ.get(KEYS) else ())
    for one in listed:
        found |= read_keys(one)
    if not listed and named:
        from dpsql.accounting.store import located
        from dpsql.policy.model import Policy

        loaded = Policy.load(policy)
        found[Signer(located(loaded.ledger_path)).public] = loaded.ledger_path.name
    if not found:
        raise click.UsageError(
            "say whose signature you believe: --key KEY or --key FILE (whoever made the file has it: `dpsql key`), or "
            "--policy PATH where the ledger is your own"
        )
    return found
