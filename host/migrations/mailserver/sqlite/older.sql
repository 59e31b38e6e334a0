-- Takes away an older shape of the file that mail servers read, for file.sql to make the new one: log-ins without their kind, in the table
-- `projected_passwords`.
--
-- Run only where that table is, in the transaction of file.sql: whenever the schema changes, the next query of every Dovecot process
-- fails (2.3.19 prepares without asking SQLite to prepare again).

DROP VIEW IF EXISTS mailserver_passwords;
DROP TABLE projected_passwords;
