-- Takes from the file that a milter reads the keys that this transaction withdraws. Run before it is committed, where there are any.

DELETE FROM milter.mailserver_dkim_keys
    WHERE (domain, selector) IN (SELECT domain, selector FROM temp.withdrawn_keys);
DELETE FROM temp.withdrawn_keys;
