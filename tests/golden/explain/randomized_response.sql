-- one column
SELECT RANDOMIZED_RESPONSE(yes) AS x FROM poll

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic

unit      each row of poll: each row is its own unit
rows      all of them leave, shuffled, each value randomised by itself; how many there are is public
measured
       column                    ε  share  noise                values     kept  each other
  [1]  RANDOMIZED_RESPONSE(yes)  1   100%  randomized response       2  73.106%       0.269

output
  x  RANDOMIZED_RESPONSE(yes), [1]: a value is kept with probability 73.106%
     RR_FREQUENCY of it has a standard error of at most 0.0096 among 10,000 rows, RR_COUNT that times the rows
     the error shrinks as 1/√n: four times the rows, half of it
----
-- two columns share, and estimates are computed from them
WITH r AS (SELECT RANDOMIZED_RESPONSE(yes) AS x, RANDOMIZED_RESPONSE(choice) AS y FROM poll)
SELECT y, RR_FREQUENCY(x) AS f, COUNT(*) AS n FROM r GROUP BY y

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic

unit      each row of poll: each row is its own unit
rows      all of them leave, shuffled, each value randomised by itself; how many there are is public
measured
       column                         ε  share  noise                values     kept  each other
  [1]  RANDOMIZED_RESPONSE(yes)     0.5    50%  randomized response       2  62.246%       0.378
  [2]  RANDOMIZED_RESPONSE(choice)  0.5    50%  randomized response       3  45.186%       0.274

output
  y  RANDOMIZED_RESPONSE(choice), [2]: a value is kept with probability 45.186%
     RR_FREQUENCY of it has a standard error of at most 0.028 among 10,000 rows, RR_COUNT that times the rows
     the error shrinks as 1/√n: four times the rows, half of it
  f  computed from RANDOMIZED_RESPONSE(yes)
  n  public, no noise
  not an output itself: RANDOMIZED_RESPONSE(yes), [1]: a value is kept with probability 62.246%
    RR_FREQUENCY of it has a standard error of at most 0.0198 among 10,000 rows, RR_COUNT that times the rows
    the error shrinks as 1/√n: four times the rows, half of it
