-- epsilon: zero
-- options: {"epsilon": 0}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not 0
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: negative
-- options: {"epsilon": -1}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not -1
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: not a number
-- options: {"epsilon": "nan"}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not "nan"
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: infinite
-- options: {"epsilon": "inf"}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not "inf"
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: tiny
-- options: {"epsilon": 1e-300}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not 1e-300
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: huge
-- options: {"epsilon": "1e400"}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not "1e400"
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: text
-- options: {"epsilon": "much"}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not "much"
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: empty text
-- options: {"epsilon": ""}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not ""
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: too large
-- options: {"epsilon": 10000000000000}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not 10000000000000
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: boolean
-- options: {"epsilon": true}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not true
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon: a list
-- options: {"epsilon": [1]}
SELECT COUNT(*) FROM people

PrivacyError bad-epsilon
error: epsilon: ε must be a number from 1e-6 to 1e12, not a list
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- no epsilon at all
-- options: {"epsilon": null}
SELECT COUNT(*) FROM people

PrivacyError no-epsilon
error: the query names no ε and the policy has no query_epsilon
help: give one: --epsilon 0.5, epsilon=0.5, or [budget] query_epsilon = 0.5 in the policy
----
-- delta too large
-- options: {"delta": 0.5}
SELECT COUNT(*) FROM people

PrivacyError bad-delta
error: delta: δ must be 0, or a number from 1e-300 to below 1e-3, not 0.5
help: 0 is pure DP; otherwise far below 1 / number of units, say 1e-6
----
-- delta negative
-- options: {"delta": -1}
SELECT COUNT(*) FROM people

PrivacyError bad-delta
error: delta: δ must be 0, or a number from 1e-300 to below 1e-3, not -1
help: 0 is pure DP; otherwise far below 1 / number of units, say 1e-6
----
-- delta not a number
-- options: {"delta": "nan"}
SELECT COUNT(*) FROM people

PrivacyError bad-delta
error: delta: δ must be 0, or a number from 1e-300 to below 1e-3, not "nan"
help: 0 is pure DP; otherwise far below 1 / number of units, say 1e-6
----
-- max_rows zero
-- options: {"max_rows": 0}
SELECT COUNT(*) FROM people

PrivacyError limit
error: max_rows is a whole number from 1 to 2³¹, or "auto", not 0
help: for instance max_rows=20; leave it out, and it is chosen where the policy names none
----
-- max_rows negative
-- options: {"max_rows": -5}
SELECT COUNT(*) FROM people

PrivacyError limit
error: max_rows is a whole number from 1 to 2³¹, or "auto", not -5
help: for instance max_rows=20; leave it out, and it is chosen where the policy names none
----
-- max_rows a fraction
-- options: {"max_rows": 1.5}
SELECT COUNT(*) FROM people

PrivacyError limit
error: max_rows is a whole number from 1 to 2³¹, or "auto", not 1.5
help: for instance max_rows=20; leave it out, and it is chosen where the policy names none
----
-- max_rows a text
-- options: {"max_rows": "5"}
SELECT COUNT(*) FROM people

PrivacyError limit
error: max_rows is a whole number from 1 to 2³¹, or "auto", not '5'
help: for instance max_rows=20; leave it out, and it is chosen where the policy names none
----
-- max_rows_per_group zero
-- options: {"max_rows_per_group": 0}
SELECT COUNT(*) FROM people

PrivacyError limit
error: max_rows_per_group is a whole number from 1 to 2³¹, or "auto", not 0
help: for instance max_rows_per_group=20; leave it out, and it is chosen where the policy names none
----
-- max_groups a boolean
-- options: {"max_groups": true}
SELECT COUNT(*) FROM people

PrivacyError limit
error: max_groups is a whole number from 1 to 2³¹, or "auto", not True
help: for instance max_groups=20; leave it out, and it is chosen where the policy names none
----
-- gaussian without a delta
-- options: {"mechanism": "gaussian"}
SELECT COUNT(*) FROM people

PrivacyError needs-delta
error: Gaussian noise needs δ > 0
help: give one: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6; or use mechanism = "laplace"
----
-- unknown mechanism
-- options: {"mechanism": "magic"}
SELECT COUNT(*) FROM people

PrivacyError mechanism
error: unknown mechanism 'magic'
help: use "auto", "laplace", "gaussian" or "discrete_gaussian"
----
-- accuracy
-- options: {"accuracy": "5%"}
SELECT COUNT(*) FROM people

PrivacyError accuracy
error: accuracy is an error that is good enough: a positive number or a share of a range, not '5%'
help: for instance 100, or "1% of range"; a share of the answer would depend on the data
