"""What a session of Spark's must be set to, so that it computes what the proofs assume (Theorem TOTAL-1, On Spark)."""

from __future__ import annotations

from collections.abc import Mapping

PINNED: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",  # what overflows raises
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",  # what TIMESTAMP means
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.session.collation.default": "UTF8_BINARY",
    "spark.sql.variable.substitute": "false",  # '${env:HOME}' is a text, not the server's home
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.groupByAliases": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.broadcastTimeout": "1000000",  # seconds: time limits are [engine]'s
    # Theorem SCAN-1: whether a record is read depends on that record alone.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.connect.session.planCache.enabled": "false",  # which files there are is looked up whenever it is asked
    # Theorem BUCKET-1: buckets are relied on where each row was found in its own, their order never.
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "false",
    # Nothing is concluded from what rows have in common.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtimeFilter.semiJoinReduction.enabled": "false",
    "spark.sql.cbo.enabled": "false",
}

UNLIMITED = "spark.driver.maxResultSize"
"""0: no limit, so that no statement fails by how many private keys there are. It is a server's, not a session's."""
