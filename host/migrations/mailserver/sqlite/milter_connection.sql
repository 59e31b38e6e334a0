-- Notes which keys a domain that is released, or is the platform's no longer, takes with it, whichever query does so. A domain may stand in both
-- tables: of its keys the one goes that was the row's, which the selector tells. Run on every connection, after withdrawn.sql and after the
-- file that a milter reads was attached as `milter`, where `dkim.milter` is set.
--
-- The keys themselves are deleted as the transaction is committed (withdraw.sql). Not here: a trigger cannot say in which file the table is that it
-- changes, and a mail daemon that somebody broke into could make one of this name in its own file, which is found first.

PRAGMA milter.synchronous = FULL;
-- What is deleted is overwritten.
PRAGMA milter.secure_delete = ON;

CREATE TEMP TRIGGER withdraw_domains_delete AFTER DELETE ON main.domains WHEN OLD.verified_at IS NOT NULL BEGIN
    INSERT INTO withdrawn_keys VALUES (OLD.domain, OLD.dkim_selector);
END;

CREATE TEMP TRIGGER withdraw_domains_update AFTER UPDATE OF domain, verified_at, dkim_selector ON main.domains
WHEN OLD.verified_at IS NOT NULL BEGIN
    INSERT INTO withdrawn_keys VALUES (OLD.domain, OLD.dkim_selector);
END;

CREATE TEMP TRIGGER withdraw_platform_domains AFTER DELETE ON main.platform_domains BEGIN
    INSERT INTO withdrawn_keys SELECT domain, selector FROM milter.mailserver_dkim_keys
        WHERE domain = OLD.domain AND selector NOT IN (
            SELECT dkim_selector FROM main.domains WHERE domain = OLD.domain AND verified_at IS NOT NULL);
END;
