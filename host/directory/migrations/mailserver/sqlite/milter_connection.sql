-- Records the keys that a domain loses when it is released or is no longer a platform domain. Because of the triggers, this works for every query that makes
-- such a change. A domain can be in `domains` and in `platform_domains`. The selector shows which key belonged to the deleted row. Runs on every connection if
-- `dkim.milter` is set, after withdrawn.sql and after the milter's file was attached as `milter`.
--
-- The keys themselves are deleted before the transaction is committed (withdraw.sql). A trigger cannot delete the keys, because a trigger cannot specify the
-- file of the table that it changes. A compromised mail daemon could create a table with the same name in the file for mail servers, and SQLite would find that
-- table first.

PRAGMA milter.synchronous = FULL;
-- Overwrites deleted data.
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
