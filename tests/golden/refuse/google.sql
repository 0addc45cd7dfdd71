-- unknown option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilom = 1) COUNT(*) FROM people

SQLError unknown-option at 1:42+7
error: there is no option epsilom
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilom = 1) COUNT(*) FROM people
     |                                          ^^^^^^^
help: did you mean epsilon?
----
-- unknown option, on another line
SELECT region,
       (SELECT WITH DIFFERENTIAL_PRIVACY
          OPTIONS(epsilon = 1,
                  max_group = 2) COUNT(*) FROM people)
FROM people GROUP BY region

SQLError unknown-option at 4:19+9
error: there is no option max_group
   4 |                   max_group = 2) COUNT(*) FROM people)
     |                   ^^^^^^^^^
help: did you mean max_groups?
----
-- unknown option like nothing else
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(colour = 1) COUNT(*) FROM people

SQLError unknown-option at 1:42+6
error: there is no option colour
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(colour = 1) COUNT(*) FROM people
     |                                          ^^^^^^
help: options are epsilon, delta, max_rows_contributed, max_rows, max_rows_per_group, max_groups_contributed, max_groups, mechanism, group_selection_strategy, privacy_unit_column
----
-- an option that is the policy's
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 1) COUNT(*) FROM people

SQLError unknown-option at 1:42+27
error: there is no option min_privacy_units_per_group
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = 1) COUNT(*) FROM people
     |                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave it out: the policy decides that, [privacy] min_units
----
-- an old name of an option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(kappa = 1) COUNT(*) FROM people

SQLError unknown-option at 1:42+5
error: there is no option kappa
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(kappa = 1) COUNT(*) FROM people
     |                                          ^^^^^
help: write max_groups_contributed
----
-- another clause
SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1) COUNT(*) FROM people

SQLError syntax at 1:13+13
error: after SELECT WITH only DIFFERENTIAL_PRIVACY can follow
   1 | SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1) COUNT(*) FROM people
     |             ^^^^^^^^^^^^^
help: write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) …
----
-- no equals sign
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon => 1) COUNT(*) FROM people

SQLError syntax at 1:50+2
error: the SQL can't be parsed: expected = here
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon => 1) COUNT(*) FROM people
     |                                                  ^^
help: write epsilon = 0.5
----
-- no value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ) COUNT(*) FROM people

SQLError syntax at 1:52+1
error: the SQL can't be parsed: expected a value here
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ) COUNT(*) FROM people
     |                                                    ^
help: write epsilon = 0.5
----
-- no bracket
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1 COUNT(*) FROM people

SQLError option-value at 1:52+22
error: epsilon takes a number
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1 COUNT(*) FROM people
     |                                                    ^^^^^^^^^^^^^^^^^^^^^^
help: write epsilon = 0.5, or leave it out
----
-- options without a bracket
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS COUNT(*) FROM people

SQLError syntax at 1:42+5
error: the SQL can't be parsed: expected ( here
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS COUNT(*) FROM people
     |                                          ^^^^^
help: write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) …
----
-- epsilon computed
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1 / 2) COUNT(*) FROM people

SQLError option-value at 1:52+5
error: epsilon takes a number
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1 / 2) COUNT(*) FROM people
     |                                                    ^^^^^
help: write epsilon = 0.5, or leave it out
----
-- epsilon a text
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = '1') COUNT(*) FROM people

SQLError option-value at 1:52+3
error: epsilon takes a number
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = '1') COUNT(*) FROM people
     |                                                    ^^^
help: write epsilon = 0.5, or leave it out
----
-- epsilon null
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = NULL) COUNT(*) FROM people

SQLError option-value at 1:52+4
error: epsilon takes a number
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = NULL) COUNT(*) FROM people
     |                                                    ^^^^
help: write epsilon = 0.5, or leave it out
----
-- epsilon zero
-- options: {"epsilon": null}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0) COUNT(*) FROM people

PrivacyError bad-epsilon at 1:52+1
error: epsilon: ε must be a number from 1e-6 to 1e12, not "0"
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0) COUNT(*) FROM people
     |                                                    ^
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon negative
-- options: {"epsilon": null}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = -1) COUNT(*) FROM people

PrivacyError bad-epsilon at 1:52+2
error: epsilon: ε must be a number from 1e-6 to 1e12, not "-1"
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = -1) COUNT(*) FROM people
     |                                                    ^^
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon infinite
-- options: {"epsilon": null}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e400) COUNT(*) FROM people

PrivacyError bad-epsilon at 1:52+5
error: epsilon: ε must be a number from 1e-6 to 1e12, not "1e400"
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e400) COUNT(*) FROM people
     |                                                    ^^^^^
help: smaller is more private; 0.1 to 1 is usual for one query
----
-- epsilon not a number
-- options: {"epsilon": null}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = nan) COUNT(*) FROM people

SQLError option-value at 1:52+3
error: epsilon takes a number
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = nan) COUNT(*) FROM people
     |                                                    ^^^
help: write epsilon = 0.5, or leave it out
----
-- delta too large
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta = 0.01) COUNT(*) FROM people

PrivacyError bad-delta at 1:50+4
error: delta: δ must be 0, or a number from 1e-300 to below 1e-3, not "0.01"
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(delta = 0.01) COUNT(*) FROM people
     |                                                  ^^^^
help: 0 is pure DP; otherwise far below 1 / number of units, say 1e-6
----
-- a limit of zero
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 0) COUNT(*) FROM people

PrivacyError limit at 1:65+1
error: max_rows_contributed is a whole number from 1 to 2³¹, or "auto", not 0
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 0) COUNT(*) FROM people
     |                                                                 ^
help: for instance max_rows_contributed=20; leave it out, and it is chosen where the policy names none
----
-- a limit of a fraction
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1.5) COUNT(*) FROM people

PrivacyError limit at 1:67+3
error: max_groups_contributed is a whole number from 1 to 2³¹, or "auto", not '1.5'
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1.5) COUNT(*) FROM people
     |                                                                   ^^^
help: for instance max_groups_contributed=20; leave it out, and it is chosen where the policy names none
----
-- unknown mechanism
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = magic) COUNT(*) FROM people

PrivacyError mechanism at 1:54+5
error: unknown mechanism 'magic'
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = magic) COUNT(*) FROM people
     |                                                      ^^^^^
help: use "auto", "laplace", "gaussian" or "discrete_gaussian"
----
-- epsilon in the SQL and beside it
-- options: {"epsilon": 2}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM people

SQLError conflicting-options at 1:52+1
error: epsilon = 1 in the SQL, and epsilon = 2 beside it
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM people
     |                                                    ^
help: say it once: in the SQL, or as an argument of the call
----
-- a limit in the SQL and beside it
-- options: {"max_groups": 3}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 2) COUNT(*) FROM people

SQLError conflicting-options at 1:67+1
error: max_groups_contributed = 2 in the SQL, and max_groups = 3 beside it
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 2) COUNT(*) FROM people
     |                                                                   ^
help: say it once: in the SQL, or as an argument of the call
----
-- one option twice
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows = 2, max_rows_contributed = 3) COUNT(*) FROM people

SQLError conflicting-options at 1:79+1
error: max_rows_contributed = 3, and the query also says max_rows = 2
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows = 2, max_rows_contributed = 3) COUNT(*) FROM people
     |                                                                               ^
help: say it once: options hold for the whole query
----
-- two clauses that disagree
WITH n AS (
  SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) AS n FROM people)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) n FROM n

SQLError conflicting-options at 3:52+3
error: epsilon = 0.5, and the query also says epsilon = 1
   3 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) n FROM n
     |                                                    ^^^
help: say it once: options hold for the whole query
----
-- unknown strategy
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUP) COUNT(*) FROM people

SQLError unknown-option at 1:69+12
error: there is no group_selection_strategy PUBLIC_GROUP
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUP) COUNT(*) FROM people
     |                                                                     ^^^^^^^^^^^^
help: did you mean PUBLIC_GROUPS?
----
-- public groups of private keys
-- options: {"delta": "1e-6", "max_groups": 2}
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) name, COUNT(*) FROM people GROUP BY name

PrivacyError private-keys at 1:120+4
error: the values of name are not public, so PUBLIC_GROUPS can't be the group_selection_strategy
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) name, COUNT(*) FROM people GROUP BY name
     |                                                                                                                        ^^^^
help: list them in the policy: [tables.people.columns] name = { values = ["…", "…"] } or { references = "table.column" }
      or leave group_selection_strategy out: keys are then selected privately
----
-- public groups of private keys without a limit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) age, COUNT(*) FROM visits GROUP BY age

PrivacyError private-keys at 1:119+3
error: the values of age are not public, so PUBLIC_GROUPS can't be the group_selection_strategy
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(group_selection_strategy = PUBLIC_GROUPS) age, COUNT(*) FROM visits GROUP BY age
     |                                                                                                                       ^^^
help: give age a min and a max in the policy: [tables.visits.columns] age = { min = …, max = … }
      or leave group_selection_strategy out: keys are then selected privately
----
-- a privacy_unit_column that isn't the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = age) COUNT(*) FROM people

PrivacyError privacy-unit at 1:64+3
error: age is not the privacy unit: the policy says what that is
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = age) COUNT(*) FROM people
     |                                                                ^^^
help: write privacy_unit_column = id, or leave it out
----
-- a privacy_unit_column that only looks like the unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = id) COUNT(*) FROM (SELECT age AS id FROM people)

PrivacyError privacy-unit at 1:64+2
error: id is not the privacy unit: the policy says what that is
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = id) COUNT(*) FROM (SELECT age AS id FROM people)
     |                                                                ^^
help: write privacy_unit_column = id, or leave it out
----
-- a privacy_unit_column of a table whose rows are units
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = survey.answer) COUNT(*) FROM survey

PrivacyError privacy-unit at 1:71+6
error: answer is not the privacy unit: the policy says what that is, and in survey each row is one
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = survey.answer) COUNT(*) FROM survey
     |                                                                       ^^^^^^
help: leave privacy_unit_column out: the policy knows the unit
----
-- a privacy_unit_column that doesn't exist
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = uid) COUNT(*) FROM people

SQLError unknown-column at 1:64+3
error: there is no column uid
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = uid) COUNT(*) FROM people
     |                                                                ^^^
help: did you mean id?
----
-- a privacy_unit_column that is computed
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = id + 1) COUNT(*) FROM people

SQLError option-value at 1:64+6
error: privacy_unit_column takes a column
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = id + 1) COUNT(*) FROM people
     |                                                                ^^^^^^
help: write privacy_unit_column = user_id, or leave it out: the policy knows the unit
----
-- a privacy_unit_column of a public table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = code) COUNT(*) FROM codes

PrivacyError privacy-unit at 1:64+4
error: privacy_unit_column stands in a SELECT without private rows
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = code) COUNT(*) FROM codes
     |                                                                ^^^^
help: leave privacy_unit_column out: the policy knows the unit
----
-- two privacy_unit_columns
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = id, privacy_unit_column = age) COUNT(*) FROM people

SQLError conflicting-options at 1:68+19
error: privacy_unit_column stands twice in one clause
   1 | SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = id, privacy_unit_column = age) COUNT(*) FROM people
     |                                                                    ^^^^^^^^^^^^^^^^^^^
help: leave one of them out
----
-- bounds that are no constants
SELECT SUM(age, contribution_bounds_per_row => (0, age)) FROM people

SQLError contribution-bounds at 1:17+39
error: contribution_bounds_per_row takes two constant numbers, the smaller one first
   1 | SELECT SUM(age, contribution_bounds_per_row => (0, age)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write SUM(x, contribution_bounds_per_row => (0, 100))
----
-- bounds upside down
SELECT SUM(age, contribution_bounds_per_row => (100, 0)) FROM people

SQLError contribution-bounds at 1:17+39
error: contribution_bounds_per_row takes two constant numbers, the smaller one first
   1 | SELECT SUM(age, contribution_bounds_per_row => (100, 0)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write SUM(x, contribution_bounds_per_row => (0, 100))
----
-- one bound
SELECT SUM(age, contribution_bounds_per_group => (100)) FROM people

SQLError contribution-bounds at 1:17+38
error: contribution_bounds_per_group takes two constant numbers, the smaller one first
   1 | SELECT SUM(age, contribution_bounds_per_group => (100)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write SUM(x, contribution_bounds_per_group => (0, 100))
----
-- bounds without brackets
SELECT SUM(age, contribution_bounds_per_group => 100) FROM people

SQLError syntax at 1:50+3
error: the SQL can't be parsed: expected ( here
   1 | SELECT SUM(age, contribution_bounds_per_group => 100) FROM people
     |                                                  ^^^
help: write SUM(x, contribution_bounds_per_group => (0, 100))
----
-- bounds misspelt
SELECT SUM(age, contribution_bound_per_group => (0, 100)) FROM people

SQLError unknown-option at 1:17+28
error: there is no argument contribution_bound_per_group
   1 | SELECT SUM(age, contribution_bound_per_group => (0, 100)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: did you mean contribution_bounds_per_group?
----
-- bounds before the value
SELECT SUM(contribution_bounds_per_group => (0, 100), age) FROM people

SQLError contribution-bounds at 1:12+29
error: contribution_bounds_per_group comes last in an aggregate, after its value
   1 | SELECT SUM(contribution_bounds_per_group => (0, 100), age) FROM people
     |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write SUM(x, contribution_bounds_per_group => (0, 100))
----
-- bounds twice
SELECT SUM(age, contribution_bounds_per_group => (0, 9), contribution_bounds_per_row => (0, 1)) FROM people

SQLError contribution-bounds at 1:58+37
error: SUM takes contribution bounds once, per row or per group
   1 | SELECT SUM(age, contribution_bounds_per_group => (0, 9), contribution_bounds_per_row => (0, 1)) FROM people
     |                                                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave one of them out
----
-- bounds of a scalar function
SELECT SUM(ABS(age, contribution_bounds_per_row => (0, 100))) FROM people

SQLError contribution-bounds at 1:21+39
error: contribution_bounds_per_row belongs to an aggregate
   1 | SELECT SUM(ABS(age, contribution_bounds_per_row => (0, 100))) FROM people
     |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write SUM(x, contribution_bounds_per_row => (0, 100))
----
-- bounds per row of a count
SELECT COUNT(age, contribution_bounds_per_row => (0, 100)) FROM people

SQLError contribution-bounds at 1:19+39
error: COUNT counts rows, and has no value to clip
   1 | SELECT COUNT(age, contribution_bounds_per_row => (0, 100)) FROM people
     |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: bound its groups: COUNT(*, contribution_bounds_per_group => (0, 5))
----
-- bounds per group of an average
SELECT AVG(age, contribution_bounds_per_group => (0, 100)) FROM people

SQLError contribution-bounds at 1:17+41
error: only SUM and COUNT can be clipped per group, not AVG
   1 | SELECT AVG(age, contribution_bounds_per_group => (0, 100)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: clip each row: AVG(x, contribution_bounds_per_row => (0, 100))
      or divide: SUM(x, contribution_bounds_per_group => (0, 100)) / COUNT(*, contribution_bounds_per_group => (0, 5))
----
-- bounds per group of a variance
SELECT VAR_POP(age, contribution_bounds_per_group => (0, 100)) FROM people

SQLError contribution-bounds at 1:21+41
error: only SUM and COUNT can be clipped per group, not VAR_POP
   1 | SELECT VAR_POP(age, contribution_bounds_per_group => (0, 100)) FROM people
     |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: clip each row: VAR_POP(x, contribution_bounds_per_row => (0, 100))
----
-- bounds of units
SELECT COUNT(DISTINCT id, contribution_bounds_per_group => (0, 1)) FROM people

SQLError contribution-bounds at 1:27+39
error: what is DISTINCT is counted once, so there is nothing to clip
   1 | SELECT COUNT(DISTINCT id, contribution_bounds_per_group => (0, 1)) FROM people
     |                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave the bounds out
----
-- bounds of a count that are no whole numbers
SELECT COUNT(*, contribution_bounds_per_group => (0, 1.5)) FROM people

SQLError contribution-bounds at 1:17+41
error: COUNT takes whole numbers from 0 to 2³¹ as bounds, and the upper one is at least 1
   1 | SELECT COUNT(*, contribution_bounds_per_group => (0, 1.5)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write COUNT(*, contribution_bounds_per_group => (0, 5))
----
-- bounds of a count below zero
SELECT COUNT(*, contribution_bounds_per_group => (-1, 1)) FROM people

SQLError contribution-bounds at 1:17+40
error: COUNT takes whole numbers from 0 to 2³¹ as bounds, and the upper one is at least 1
   1 | SELECT COUNT(*, contribution_bounds_per_group => (-1, 1)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write COUNT(*, contribution_bounds_per_group => (0, 5))
----
-- bounds that leave nothing
SELECT SUM(age, contribution_bounds_per_group => (0, 0)) FROM people

SQLError contribution-bounds at 1:17+39
error: between 0 and 0 nothing is left of a sum
   1 | SELECT SUM(age, contribution_bounds_per_group => (0, 0)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: make one of the bounds another number than 0
----
-- bounds without a whole number
SELECT SUM(age, contribution_bounds_per_group => (0.2, 0.8)) FROM people

SQLError contribution-bounds at 1:17+43
error: no INTEGER but 0 lies within these bounds
   1 | SELECT SUM(age, contribution_bounds_per_group => (0.2, 0.8)) FROM people
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: make them wider: from 0 to 1 at least
----
-- bounds of a text
SELECT SUM(name, contribution_bounds_per_group => (0, 100)) FROM people

SQLError type at 1:12+4
error: SUM takes a number, not VARCHAR
   1 | SELECT SUM(name, contribution_bounds_per_group => (0, 100)) FROM people
     |            ^^^^
help: write SUM(CLIP(TRY_CAST(name AS DOUBLE), low, high)), where low and high are the least and the greatest value that you expect
----
-- bounds over results
SELECT SUM(n, contribution_bounds_per_row => (0, 100)) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region)

SQLError contribution-bounds at 1:15+39
error: results are public, and need no contribution bounds
   1 | SELECT SUM(n, contribution_bounds_per_row => (0, 100)) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region)
     |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave them out; CLIP(x, 0, 100) clips a number
----
-- bounds of a window
SELECT region, SUM(COUNT(*), contribution_bounds_per_row => (0, 100)) OVER () FROM people GROUP BY region

SQLError contribution-bounds at 1:30+39
error: results are public, and need no contribution bounds
   1 | SELECT region, SUM(COUNT(*), contribution_bounds_per_row => (0, 100)) OVER () FROM people GROUP BY region
     |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: leave them out; CLIP(x, 0, 100) clips a number
----
-- the interval of a key
SELECT region AS r, DP_INTERVAL_LOW(r) FROM people GROUP BY region

SQLError interval at 1:21+18
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT region AS r, DP_INTERVAL_LOW(r) FROM people GROUP BY region
     |                     ^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
----
-- the interval of an expression
SELECT COUNT(*) + 1 AS n, DP_INTERVAL_HIGH(n) FROM people

SQLError interval at 1:27+19
error: DP_INTERVAL_HIGH takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT COUNT(*) + 1 AS n, DP_INTERVAL_HIGH(n) FROM people
     |                           ^^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_HIGH(n) FROM …
----
-- the interval of a constant
SELECT COUNT(*) AS n, DP_INTERVAL_HIGH(1) FROM people

SQLError interval at 1:23+19
error: DP_INTERVAL_HIGH takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT COUNT(*) AS n, DP_INTERVAL_HIGH(1) FROM people
     |                       ^^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_HIGH(n) FROM …
----
-- the interval of a column
SELECT COUNT(*), DP_INTERVAL_LOW(age) FROM people

SQLError interval at 1:18+20
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT COUNT(*), DP_INTERVAL_LOW(age) FROM people
     |                  ^^^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
----
-- the interval of rows
SELECT SUM(DP_INTERVAL_LOW(age)) FROM people

SQLError interval at 1:12+20
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT SUM(DP_INTERVAL_LOW(age)) FROM people
     |            ^^^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
----
-- the interval of an alias that isn't there
SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) FROM people

SQLError unknown-column at 1:39+1
error: there is no column m
   1 | SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) FROM people
     |                                       ^
help: columns here: id, name, age, income, height, region, code, born, seen, member, debt, secret, tags
----
-- the interval of a result
SELECT DP_INTERVAL_LOW(n) FROM (SELECT COUNT(*) AS n FROM people)

SQLError interval at 1:8+18
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT DP_INTERVAL_LOW(n) FROM (SELECT COUNT(*) AS n FROM people)
     |        ^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
----
-- the interval of a public count
SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM codes

SQLError interval at 1:23+18
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM codes
     |                       ^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
----
-- the interval of two aliases
SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n, n) FROM people

SQLError interval at 1:23+21
error: DP_INTERVAL_LOW takes one alias
   1 | SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n, n) FROM people
     |                       ^^^^^^^^^^^^^^^^^^^^^
help: write DP_INTERVAL_LOW(n) for COUNT(*) AS n
----
-- the interval in WHERE
SELECT COUNT(*) AS n FROM people WHERE DP_INTERVAL_LOW(n) > 5

SQLError interval at 1:40+18
error: DP_INTERVAL_LOW takes the alias of an aggregate of private rows as it stands, in the same SELECT: nothing else has noise of its own
   1 | SELECT COUNT(*) AS n FROM people WHERE DP_INTERVAL_LOW(n) > 5
     |                                        ^^^^^^^^^^^^^^^^^^
help: write SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) FROM …
----
-- bounds without a value
SELECT COUNT(, contribution_bounds_per_group => (0, 5)) FROM people

SQLError contribution-bounds at 1:16+29
error: contribution_bounds_per_group comes last in an aggregate, after its value
   1 | SELECT COUNT(, contribution_bounds_per_group => (0, 5)) FROM people
     |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: write SUM(x, contribution_bounds_per_group => (0, 100))
----
-- a variance whose square no double holds
SELECT VAR_POP(debt, contribution_bounds_per_row => (0, 1e200)) FROM people

PrivacyError needs-range at 1:16+4
error: VAR_POP needs a range for people.debt: the one it has is too wide
   1 | SELECT VAR_POP(debt, contribution_bounds_per_row => (0, 1e200)) FROM people
     |                ^^^^
help: give debt a min and a max in the policy: [tables.people.columns] debt = { min = low, max = high }
      or clip it in the query: VAR_POP(CLIP(debt, low, high)), where low and high are the least and the greatest value that you expect
----
-- bounds per group that no double holds
SELECT SUM(debt, contribution_bounds_per_group => (-1e303, 1)) FROM people

SQLError contribution-bounds at 1:18+44
error: these bounds are too wide for any sum
   1 | SELECT SUM(debt, contribution_bounds_per_group => (-1e303, 1)) FROM people
     |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
help: give it bounds below 1e280
