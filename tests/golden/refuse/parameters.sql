-- too few values
-- options: {"params": [1]}
SELECT COUNT(*) FROM people WHERE age > ? AND age < ?

SQLError parameter at 1:53+1
error: the query has 2 parameters, and one value was given
   1 | SELECT COUNT(*) FROM people WHERE age > ? AND age < ?
     |                                                     ^
help: give as many values as the query has parameters
----
-- too many values
-- options: {"params": [1, 2]}
SELECT COUNT(*) FROM people WHERE age > ?

SQLError parameter
error: the query has one parameter, and 2 values were given
help: give as many values as the query has parameters
----
-- values for a query without parameters
-- options: {"params": [1]}
SELECT COUNT(*) FROM people

SQLError parameter
error: the query has no parameters, and one value was given
help: give as many values as the query has parameters
----
-- a number that is never used
-- options: {"params": [1, 2]}
SELECT COUNT(*) FROM people WHERE age > $2

SQLError parameter
error: the query never uses $1
help: give as many values as the query has parameters
----
-- no value for a name
-- options: {"params": {"age": 1}}
SELECT COUNT(*) FROM people WHERE age > $ages

SQLError parameter at 1:41+5
error: no value was given for $ages
   1 | SELECT COUNT(*) FROM people WHERE age > $ages
     |                                         ^^^^^
help: you gave age: names must be the same
----
-- a name that is never used
-- options: {"params": {"age": 1, "city": "Bern"}}
SELECT COUNT(*) FROM people WHERE age > $age

SQLError parameter
error: the query has no parameter $city
help: write $city in it, or leave the value out
----
-- names with a list
-- options: {"params": [1]}
SELECT COUNT(*) FROM people WHERE age > $age

SQLError parameter at 1:41+4
error: the query's parameters are names
   1 | SELECT COUNT(*) FROM people WHERE age > $age
     |                                         ^^^^
help: give a mapping: params={"name": value}
----
-- question marks with a mapping
-- options: {"params": {"age": 1}}
SELECT COUNT(*) FROM people WHERE age > ?

SQLError parameter at 1:41+1
error: the query's parameters are numbers or question marks
   1 | SELECT COUNT(*) FROM people WHERE age > ?
     |                                         ^
help: give a list: params=[value, …]
----
-- two kinds of parameters
-- options: {"params": [1, 2]}
SELECT COUNT(*) FROM people WHERE age > ? AND age < $2

SQLError parameter at 1:53+2
error: the query has parameters like ? and like $1
   1 | SELECT COUNT(*) FROM people WHERE age > ? AND age < $2
     |                                                     ^^
help: use one kind
----
-- a parameter number zero
-- options: {"params": [1]}
SELECT COUNT(*) FROM people WHERE age > $0

SQLError parameter at 1:41+2
error: $0 is no parameter
   1 | SELECT COUNT(*) FROM people WHERE age > $0
     |                                         ^^
help: write ?, $1 or $name
----
-- a list outside of IN
-- options: {"params": [["north", "south"]]}
SELECT COUNT(*) FROM people WHERE region = ?

SQLError parameter at 1:44+1
error: a list stands for what follows IN
   1 | SELECT COUNT(*) FROM people WHERE region = ?
     |                                            ^
help: write x IN ?, or x IN (?)
----
-- an empty list
-- options: {"params": [[]]}
SELECT COUNT(*) FROM people WHERE region IN ?

SQLError parameter
error: parameter 1 is an empty list
help: nothing is IN an empty list: leave the query out
----
-- a list in a list
-- options: {"params": [[["north"]]]}
SELECT COUNT(*) FROM people WHERE region IN ?

SQLError parameter
error: parameter 1 is list, which has no literal
help: use str, int, float, Decimal, bool, date, datetime, time, None, or a list of them for IN
----
-- a parameter for a table
-- options: {"params": ["people"]}
SELECT COUNT(*) FROM ?

SQLError parameter at 1:22+1
error: a parameter stands for a value, not for a name
   1 | SELECT COUNT(*) FROM ?
     |                      ^
help: write the name itself
----
-- a parameter for a column's name
-- options: {"params": ["n"]}
SELECT COUNT(*) AS ? FROM people

SQLError parameter at 1:20+1
error: a parameter stands for a value, not for a name
   1 | SELECT COUNT(*) AS ? FROM people
     |                    ^
help: write the name itself
----
-- a parameter for a column of a table
-- options: {"params": ["age"]}
SELECT COUNT(*) FROM people WHERE people.? > 3

SQLError parameter at 1:42+1
error: a parameter stands for a value, not for a name
   1 | SELECT COUNT(*) FROM people WHERE people.? > 3
     |                                          ^
help: write the name itself
----
-- a text where a number belongs
-- options: {"params": ["many"]}
SELECT COUNT(*) FROM people WHERE age > ?

SQLError bad-literal at 1:41+1
error: 'many' can't be read as INTEGER
   1 | SELECT COUNT(*) FROM people WHERE age > ?
     |                                         ^
help: write a number: 5
----
-- params that are a text
-- options: {"params": "north"}
SELECT COUNT(*) FROM people WHERE region = ?

SQLError parameter
error: params is a list or a mapping, not str
help: write params=[5, "Bern"] for ? and $1, or params={"city": "Bern"} for $city
