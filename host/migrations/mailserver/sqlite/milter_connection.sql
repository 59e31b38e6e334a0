-- Takes the key of a domain that is released, or is the platform's no longer, from the file that a milter reads, in the very transaction, whichever
-- query does so. A domain may stand in both tables: of its keys the one goes that was the row's, which the selector tells. Run on every connection, after that file was attached as `milter`, where `dkim.milter` is set.
--
-- A trigger cannot say in which file a table is: a mail daemon that somebody broke into could make one of this name in its own file, which is found
-- first. Then the key stays until the service makes the table anew within the hour, for which the file is named; no key is written by a trigger.

PRAGMA milter.synchronous = FULL;
-- What is deleted is overwritten.
PRAGMA milter.secure_delete = ON;

CREATE TEMP TRIGGER withdraw_domains_delete AFTER DELETE ON main.domains WHEN OLD.verified_at IS NOT NULL BEGIN
    DELETE FROM mailserver_dkim_keys WHERE domain = OLD.domain AND selector = OLD.dkim_selector;
END;

CREATE TEMP TRIGGER withdraw_domains_update AFTER UPDATE OF domain, verified_at, dkim_selector ON main.domains
WHEN OLD.verified_at IS NOT NULL BEGIN
    DELETE FROM mailserver_dkim_keys WHERE domain = OLD.domain AND selector = OLD.dkim_selector;
END;

CREATE TEMP TRIGGER withdraw_platform_domains AFTER DELETE ON main.platform_domains BEGIN
    DELETE FROM mailserver_dkim_keys WHERE domain = OLD.domain AND selector NOT IN (
        SELECT dkim_selector FROM main.domains WHERE domain = OLD.domain AND verified_at IS NOT NULL);
END;
