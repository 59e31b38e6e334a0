-- The last pause of a host: the host did not write its row between these times, because the host or the database was paused.
ALTER TABLE hosts ADD COLUMN paused_from BIGINT;
ALTER TABLE hosts ADD COLUMN resumed_at BIGINT;
