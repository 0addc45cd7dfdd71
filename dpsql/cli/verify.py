"""dpsql verify: check a file and its signed receipt."""

from __future__ import annotations

import json
import os

import click
from click.core import ParameterSource

from dpsql.cli.options import policy_option

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
