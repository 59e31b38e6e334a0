-- Deletes from the milter's file the keys that this transaction withdraws. Runs before the commit if there are such keys.

DELETE FROM milter.mailserver_dkim_keys
    WHERE (domain, selector) IN (SELECT domain, selector FROM temp.withdrawn_keys);
DELETE FROM temp.withdrawn_keys;
