-- Removes an older shape of the file that mail servers read, so that file.sql can create the current one. In the older shape, log-ins have no kind and are in
-- the table `projected_passwords`.
--
-- Runs only if that table exists, in the transaction of file.sql, because after every change of the schema the next query of every Dovecot process fails
-- (2.3.19 prepares statements without asking SQLite to prepare them again).

DROP VIEW IF EXISTS mailserver_passwords;
DROP TABLE projected_passwords;
