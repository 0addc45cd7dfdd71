-- groups of few units are withheld, so units are counted in each
SELECT kind, COUNT(*) FROM orders GROUP BY kind

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_groups: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of orders whose id is NULL are left out
          small groups are not shown; how small is known once the limits are chosen

unit      id of orders: rows_per_unit = 3, not verified
          bounded by limits that are chosen first
enforced  max_rows = 3, max_groups still to be chosen
cells     3 = kind (3: values of orders.kind)
          those with a noisy number of units of at least 10 leave
measured
       statistic                  ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  count of rows            0.4    40%  open  open  discrete Laplace   open  open
  [2]  count of distinct units  0.4    40%  open  open  discrete Laplace   open  open

output
  kind          key kind: no noise
  count_star()  COUNT(*), from [1]
                the limit is still to be chosen; noise by the limit on rows: ± 7.49 for 1, ± 74.9 for 10, ± 749 for 100
----
-- on a later line
SELECT kind,
       AVG(CLIP(order_id, 0, 9))
FROM orders
GROUP BY kind

price     ε = 1, δ = 0
          protects one unit with ε = 1 (2 for 2 units together, 5 for 5 units together)
fits      100 more times; into a whole account, with this noise: 100 under basic
limits    max_groups: chosen first, for ε = 0.2 of the price, once
          from a noisy histogram of what units have; nothing of this price depends on it
note      rows of orders whose id is NULL are left out
          small groups are not shown; how small is known once the limits are chosen

unit      id of orders: rows_per_unit = 3, not verified
          bounded by limits that are chosen first
enforced  max_rows = 3, max_groups still to be chosen
cells     3 = kind (3: values of orders.kind)
          those with a noisy number of units of at least 10 leave
measured
       statistic                                        ε  share    ℓ1    ℓ2  noise             scale  grid
  [1]  sum and count of CLIP(order_id, 0, 9) jointly  0.4    40%  open  open  discrete Laplace   open  open
  [2]  count of distinct units                        0.4    40%  open  open  discrete Laplace   open  open

output
  kind                       key kind: no noise
  avg(clip(order_id, 0, 9))  AVG(CLIP(orders.order_id, 0, 9)), from [1]
                             range [0, 9] (CLIP(…, 0, 9)); values outside are clipped
                             the limit is still to be chosen; noise by the limit on rows: ± 0.0674 for 1, ± 0.674 for 10, ± 6.74 for 100
