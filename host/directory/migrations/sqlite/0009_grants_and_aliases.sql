-- The time at which the owner suspended an API token or an OAuth grant. NULL if the credential is
-- not suspended.
ALTER TABLE app_passwords ADD COLUMN suspended_at BIGINT;

-- A suspension closes the connections of the app password on all hosts, as its end does.
CREATE TRIGGER credential_suspended AFTER UPDATE OF suspended_at ON app_passwords
WHEN NEW.suspended_at IS NOT NULL BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('credential_ended', NEW.id, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;

-- The owner's note about an alias, and the time from which the alias receives no mail.
ALTER TABLE addresses ADD COLUMN note TEXT;
ALTER TABLE addresses ADD COLUMN expires_at BIGINT;
