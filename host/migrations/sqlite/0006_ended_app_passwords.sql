-- App passwords that are gone, until the mail server has ended what was begun with them.
--
-- Written by a trigger, in the transaction that takes them away, wherever that is. Unlike those of ../mailserver/sqlite/connection.sql it
-- is there while later migrations run: one that makes app_passwords anew has to make it anew.
CREATE TABLE ended_app_passwords (
    app_password_id TEXT   PRIMARY KEY,
    ended_at        BIGINT NOT NULL             -- milliseconds since the epoch, by the database's clock
);
CREATE INDEX ended_app_passwords_by_end ON ended_app_passwords (ended_at);

CREATE TRIGGER remember_ended_app_password AFTER DELETE ON app_passwords BEGIN
    INSERT OR IGNORE INTO ended_app_passwords VALUES (OLD.id, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;
