"""dpsql key: the public key by which others verify receipts."""

from __future__ import annotations

import click

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
