-- keys to select, without a delta
-- options: {"max_groups": 2}
SELECT order_id // 2, COUNT(*) FROM orders GROUP BY 1

PrivacyError private-keys at 1:8+13
error: the values of order_id are not public; selecting keys privately takes δ > 0
   1 | SELECT order_id // 2, COUNT(*) FROM orders GROUP BY 1
     |        ^^^^^^^^^^^^^
help: give order_id a min and a max in the policy: [tables.orders.columns] order_id = { min = …, max = … }; then the values of order_id // 2 are public
      or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6
