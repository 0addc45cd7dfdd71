"""What leaves dpsql is paid for here: prices and filters as exact numbers, and the durable account
of everything one ledger file ever released, with the data versions and promises it vouches for."""
