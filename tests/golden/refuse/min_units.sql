-- groups of few units are withheld, so units are counted in each
SELECT kind, COUNT(*) FROM orders GROUP BY kind

PrivacyError needs-max-groups at 1:44+4
error: the policy's min_units = 10 counts units in each group, and nothing says in how many groups one unit may be
   1 | SELECT kind, COUNT(*) FROM orders GROUP BY kind
     |                                            ^^^^
help: say in how many groups one unit may count: --max-groups 4, max_groups=4, or [privacy] max_groups = 4 in the policy
----
-- on a later line
SELECT kind,
       AVG(CLIP(order_id, 0, 9))
FROM orders
GROUP BY kind

PrivacyError needs-max-groups at 4:10+4
error: the policy's min_units = 10 counts units in each group, and nothing says in how many groups one unit may be
   4 | GROUP BY kind
     |          ^^^^
help: say in how many groups one unit may count: --max-groups 4, max_groups=4, or [privacy] max_groups = 4 in the policy
----
-- keys to select, without a delta
-- options: {"max_groups": 2}
SELECT order_id // 2, COUNT(*) FROM orders GROUP BY 1

PrivacyError private-keys at 1:8+13
error: the values of order_id are not public; selecting keys privately takes δ > 0
   1 | SELECT order_id // 2, COUNT(*) FROM orders GROUP BY 1
     |        ^^^^^^^^^^^^^
help: give it a min and a max in the policy: [tables.orders.columns] order_id = { min = 0, max = 100 }
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
